"""XPATH in selectors (SEMANTICS A7); `tests/conformance/test_xpath_selectors.py` compares with ActiveMQ."""

import logging

import pytest

from ackwire.errors import InvalidSelector
from ackwire.jms.names import BODY
from ackwire.selector import XPathLimits, compile_selector
from ackwire.selector.xml_tree import DEPTH_MAX, NotXml, TooManyNodes, parse_xml

LIMITS = XPathLimits(body_bytes_max=4096, nodes_max=500, steps_max=5000)
DOCUMENT = """<a lang='x'><b x='1'>one</b> <c>5</c><c>7</c><?go on?><d xmlns='u' xml:lang='en-GB'><e/>two</d></a>"""


def _matches(expression: str, body: object = DOCUMENT, limits: XPathLimits = LIMITS) -> bool:
    escaped = expression.replace("'", "''")
    return compile_selector(f"XPATH '{escaped}'", limits).matches(lambda name: body if name == BODY else None)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    "expression",
    [
        "/",
        "/a/b",
        "a",
        "//b[@x=1]",
        "//b[@x='1']",
        "//@x",
        "/descendant::c[2] = 7",
        "//c[2] = 7",
        "//c[position() = last()] = 7",
        "(//c)[last()] = '7'",
        "/a/*[2] = 5",
        "/a/c[. > 6]/preceding-sibling::c[1] = 5",
        "/a/c[2]/preceding-sibling::*[2]/@x",
        "//c[preceding::b and not(following::b)]",
        "//b/ancestor::a",
        "//b/following-sibling::c",
        "//*[local-name() = 'e' and namespace-uri() = 'u']/parent::node()",
        "//*[lang('en')]",
        "//*[@xml:lang]",
        "processing-instruction('go') | a",
        "//processing-instruction()",
        "//text()[. = 'two']",
        "count(//node()) > 8",
        "sum(//c) = 12",
        "//c = 7 and //c != 7",
        "//c < 6 and not(//c < 5) and //c >= 7 and 6 <= //c",
        "//c = //c and //b != //c",
        "boolean(//b) = true() and //b = true()",
        "string(//b) = 'one' and string(1.50) = '1.5' and string(-0) = '0' and string(1 div 0) = 'Infinity'",
        "string(1000000000000000000000) = '1000000000000000000000'",
        "string(number('x')) = 'NaN' and number(' -1.5 ') = -1.5 and number(true()) = 1",
        "concat('a', 1, true()) = 'a1true'",
        "starts-with('abc', 'ab') and contains('abc', 'bc') and not(contains('abc', 'x'))",
        "substring-before('1999/04', '/') = '1999' and substring-after('1999/04', '/') = '04'",
        "substring('12345', 2, 3) = '234' and substring('12345', 1.5, 2.6) = '234' and substring('12345', 2) = '2345'",
        "substring('12345', 0 div 0, 3) = '' and substring('12345', -42, 1 div 0) = '12345'",
        "string-length('abc') = 3 and normalize-space('  a  b ') = 'a b' and translate('bar', 'abr', 'AB') = 'BA'",
        "floor(2.6) = 2 and ceiling(2.2) = 3 and round(2.5) = 3 and round(-2.5) = -2",
        "1 + 2 * 3 - 4 div 2 = 5 and 7 mod 4 = 3 and -7 mod 4 = -3 and - - 1 = 1",
        "2 > 1 or 1 div 0 = 0",
        "name(//*[local-name() = 'd']) = 'd' and name(/..) = ''",
        "self::node()/child::a/attribute::lang = 'x'",
        "//b[../c]",
        "descendant-or-self::b",
        "'x'",
    ],
)
def test_A7_xpath_holds(expression: str) -> None:
    assert _matches(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "/b",
        "//x",
        "0",
        "''",
        "false()",
        "//b[2]",
        "//e",
        "//comment()",
        "//c > 7",
        "count(//c) = 3",
        "id('x')",
        "/a/text()[5]",
    ],
)
def test_A7_xpath_does_not_hold(expression: str) -> None:
    assert not _matches(expression)


@pytest.mark.parametrize("body", [None, 5, "", "text", "<a>", "<a/><b/>", "<a>&b;</a>", "<a>\ud800</a>", b"<a/>"])
def test_A7_what_is_no_xml_does_not_match(body: object) -> None:
    assert not _matches("true()", body)


@pytest.mark.parametrize(
    "expression",
    ["", "(", "//", "/a/", "a[", "a]", "1 +", "p:a", "p:*", "$x", "namespace::a", "up::a", "nothing()", "count(1)",
     "not()", "not(1, 2)", "1[1]", "'a' | b", "a b", "a/1", "@", "text(", "#", "substring('a')", "'a'/b"],
)  # fmt: skip
def test_A7_an_xpath_that_cannot_be_evaluated_is_refused(expression: str) -> None:
    with pytest.raises(InvalidSelector, match="invalid XPath"):
        _matches(expression)


def test_A7_xpath_is_refused_unless_it_is_allowed_and_xquery_always() -> None:
    with pytest.raises(InvalidSelector, match=r"XPATH is not offered.*selectors\.xpath"):
        compile_selector("XPATH '/a'")
    with pytest.raises(InvalidSelector, match="XQUERY is not offered"):
        compile_selector("XQUERY '/a'", LIMITS)
    assert compile_selector("XPATH '/a' AND x = 1", LIMITS).identifiers == {"x"}
    assert compile_selector("XPATH '/a'", LIMITS).cost > compile_selector("x = 1", LIMITS).cost


def test_A7_long_and_many_xpaths_are_refused() -> None:
    with pytest.raises(InvalidSelector, match="2048"):
        _matches("a|" * 2000 + "a")
    with pytest.raises(InvalidSelector, match="more than 8 XPATH"):
        compile_selector(" OR ".join(["XPATH '/a'"] * 9), LIMITS)


def test_A7_several_xpaths_share_the_effort_of_their_selector() -> None:
    document, limits = "<a>" + "<b/>" * 400 + "</a>", XPathLimits(4096, 500, 100_000)
    heavy = "XPATH '//b[//c]'"
    assert compile_selector(f"NOT {heavy} AND XPATH '/a/b'", XPathLimits(4096, 500, 5000)).matches(lambda _: document)
    greedy = compile_selector(f"{heavy} OR XPATH '/a/b'", limits)
    assert not greedy.matches(lambda name: document if name == BODY else None), "nothing was left for the second"


def test_A7_deep_xpaths_are_refused() -> None:
    for deep in ("(" * 200 + "1" + ")" * 200, "a[" * 200 + "1" + "]" * 200, "not(" * 200 + "1" + ")" * 200):
        with pytest.raises(InvalidSelector, match="levels deep"):
            _matches(deep)


@pytest.mark.parametrize(
    "document",
    [
        "<!DOCTYPE a><a/>",
        "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
        "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>",
        "<!DOCTYPE a [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><a>&x;</a>",
        "<!DOCTYPE a [<!ENTITY % p SYSTEM 'http://127.0.0.1/'>%p;]><a/>",
    ],
)
def test_A7_a_document_type_is_not_read(document: str) -> None:
    with pytest.raises(NotXml, match="document type"):
        parse_xml(document, 100)
    assert not _matches("true()", document)


def test_A7_documents_are_bounded_in_depth_and_nodes() -> None:
    parse_xml("<a>" * DEPTH_MAX + "</a>" * DEPTH_MAX, 1000)
    with pytest.raises(NotXml, match="levels deep"):
        parse_xml("<a>" * (DEPTH_MAX + 1) + "</a>" * (DEPTH_MAX + 1), 1000)
    with pytest.raises(TooManyNodes):
        parse_xml("<a>" + "<b/>" * 100 + "</a>", 100)
    with pytest.raises(TooManyNodes):
        parse_xml("<a " + " ".join(f"b{n}=''" for n in range(100)) + "/>", 100)


@pytest.mark.parametrize(
    ("expression", "body", "said"),
    [
        ("true()", "<a>" + "x" * 5000 + "</a>", "xpath_body_bytes_max"),
        ("true()", "<a>" + "<b/>" * 600 + "</a>", "xpath_nodes_max"),
        ("//*[//*[//*]]", "<a>" + "<b/>" * 400 + "</a>", "xpath_steps_max"),
        ("//b[string-length(/) = 1]", "<a>" + "<b/>" * 300 + "x" * 2500 + "</a>", "xpath_steps_max"),
        ("//b/preceding::b[count(following::b) = -1]", "<a>" + "<b/>" * 400 + "</a>", "xpath_steps_max"),
        (
            "string-length(" + "concat(/, " * 20 + "/" + ", /)" * 20 + ") = 1",
            "<a>" + "x" * 4000 + "</a>",
            "xpath_steps_max",
        ),
    ],
)
def test_A7_work_beyond_the_limits_does_not_match_and_is_told_once(
    expression: str, body: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    selector = compile_selector("XPATH '" + expression.replace("'", "''") + f"' AND x{len(body)} IS NULL", LIMITS)
    for _ in range(3):
        assert not selector.matches(lambda name: body if name == BODY else None)
    [record] = [it for it in caplog.records if it.levelno == logging.WARNING]
    assert said in record.getMessage()
