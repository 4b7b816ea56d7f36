"""XPATH in selectors: messages are chosen by the XML in their bodies (A7)."""

from tests.conformance.jms import Jms, Outgoing, Value, bodies, text
from tests.conformance.scenarios import named_client

BROKER_VARIANT = "xpath"

ORDER = "<order id='7'><item price='5'>pen</item><item price='12.5'>book</item><!-- a note --></order>"
SPACED = (
    "<?xml version='1.0'?>\n<o:order xmlns:o='urn:o' xmlns='urn:d'><item>cup</item><n><![CDATA[a<b]]></n></o:order>"
)
EMPTY = "<order/>"
MESSAGES = [text(ORDER), text(SPACED), text(EMPTY), text("no XML"), text(None), text("<!DOCTYPE order []><order/>")]

EXPRESSIONS = {
    "/order": [ORDER, EMPTY],
    "/order/item": [ORDER],
    "//item[@price > 10]": [ORDER],
    "//item[@price > 20]": [],
    "//item[2] = 'book'": [ORDER],
    "//item[last()]/@price": [ORDER],
    "count(//item) = 2": [ORDER],
    "sum(//item/@price) = 17.5": [ORDER],
    "/order[not(item)]": [EMPTY],
    "//item[contains(., 'oo')]": [ORDER],
    "starts-with(/order/item, 'p')": [ORDER],
    "//*[local-name() = 'item']": [ORDER, SPACED],
    "//*[namespace-uri() = 'urn:o']": [SPACED],
    "name(/*) = 'o:order'": [SPACED],
    "//*[local-name() = 'n'] = 'a<b'": [SPACED],
    "//item/text()[. = 'pen']": [ORDER],
    "//comment()": [],
    "/order/@id = 7 and //item[1]/following-sibling::item": [ORDER],
    "/order/@id | /order/item": [ORDER],
    "//item/..": [ORDER],
    "//item/ancestor::order[@id]": [ORDER],
    "string-length(normalize-space(/)) > 5": [ORDER, SPACED],
    "number(/order/@id) * 2 - 4 = 10": [ORDER],
    "(//item)[1][@price = 5]": [ORDER],
    "translate(//item, 'p', 'P') = 'Pen'": [ORDER],
    "true()": [ORDER, SPACED, EMPTY],
    "0": [],
    "'text'": [ORDER, SPACED, EMPTY],
    "4 div 0 > 1000 and 7 mod 4 = 3": [ORDER, SPACED, EMPTY],
}


def _selector(expression: str) -> str:
    return "XPATH '" + expression.replace("'", "''") + "'"


def test_A7_xpath_chooses_by_the_xml_in_the_body(jms: Jms, tcp: str, queue: str) -> None:
    """A7: XPath 1.0; what is no XML, or has a document type, does not match."""
    session = jms.connect(tcp).session()
    jms.send(tcp, queue, *MESSAGES)
    found = {expression: bodies(session.browse(queue, _selector(expression))) for expression in EXPRESSIONS}
    assert found == EXPRESSIONS


def test_A7_xpath_is_a_condition_among_others(jms: Jms, tcp: str, queue: str) -> None:
    """A7: with AND, OR and NOT; only text messages can match."""
    jms.send(tcp, queue, *MESSAGES, Outgoing("map", {"order": Value("string", "<order/>")}))
    session = jms.connect(tcp).session()

    def found(selector: str) -> int:
        return len(session.browse(queue, selector))

    assert found("XPATH '/order' AND JMSPriority = 4") == 2
    assert found("XPATH '/order' AND JMSPriority = 5") == 0
    assert found("NOT XPATH '/order'") == 5
    assert found("XPATH '/order/item' OR XPATH '/order[not(*)]'") == 2


def test_A7_consumers_and_durable_subscribers_may_use_xpath(jms: Jms, tcp: str, queue: str, topic: str) -> None:
    """A7, A3: as any selector; what one does not want is left to others."""
    jms.send(tcp, queue, *MESSAGES)
    consumer = jms.connect(tcp).session().consumer(queue, selector="XPATH '/order/item'")
    assert bodies(consumer.receive_expected(1)) == [ORDER]
    consumer.assert_nothing_comes()
    with named_client(jms, tcp, topic) as connection:
        connection.session().durable(topic, "durable", selector="XPATH '/order/item'")
    jms.send(tcp, topic, *MESSAGES)
    session = named_client(jms, tcp, topic).session()
    subscriber = session.durable(topic, "durable", selector="XPATH '/order/item'")
    assert bodies(subscriber.receive_expected(1)) == [ORDER]
    subscriber.assert_nothing_comes()
