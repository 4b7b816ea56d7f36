"""Our options of the client, their types and defaults, against the setters of the real Java client's objects."""

import subprocess
from pathlib import Path

import pytest

from ackwire.client import options
from ackwire.config.fields import options_of
from ackwire.config.queries import Section
from ackwire.config.types import Switch
from tests.helpers.java import CLIENT_JARS, JVM_OPTIONS, classpath, compiled

SOURCES = Path(__file__).parent / "java" / "options"

SECTIONS = {
    "connection": options.CONNECTION,
    "prefetch": options.PREFETCH,
    "redelivery": options.REDELIVERY,
    "failover": options.FAILOVER,
    "wireFormat": options.WIRE_FORMAT,
    "transport": options.TRANSPORT,
    "consumer": options.CONSUMER,
    "producer": options.PRODUCER,
}

VALUES = {"boolean", "Boolean", "int", "Integer", "long", "short", "byte", "double", "String"}
"""The types that a URI can set; the rest are objects."""

NEWER = {"requestTimeout", "maxInflatedDataSizeRatio", "strictCompliance", "useVirtualThreadTaskRunner"}
"""Of ActiveMQ 6; Debian's is 5.17."""
ELSEWHERE = {"soWriteTimeout", "useInactivityMonitor"}
"""Read by the transport's factory, which has no setters for them."""
NOT_OPTIONS = {
    "connection": {"brokerURL"},  # the URL itself
    "prefetch": {"all"},  # a group of its own
    "failover": {"nestedExtraQueryOptions"},  # what nested. becomes
}
OUR_OWN = {"tightEncodingEnabled", "cacheEnabled", "stackTraceEnabled"}
"""Off here, because the fast path needs them off."""
UNSET = {"null", "-2147483648"}
UNREADABLE = "?"

Property = tuple[str, str]
"""Type and default, as Java prints them."""


@pytest.fixture(scope="module")
def properties(java_cache: Path) -> dict[str, dict[str, Property]]:
    classes = compiled(SOURCES, CLIENT_JARS, java_cache)
    command = ["java", *JVM_OPTIONS, "-cp", classpath(CLIENT_JARS, classes), "Defaults"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found: dict[str, dict[str, Property]] = {section: {} for section in SECTIONS}
    for section, name, kind, value in (line.split("\t") for line in lines):
        if kind in VALUES:
            found[section][name] = (kind, value)
    return found


def ours(section: Section) -> dict[str, str]:
    """Default by name, as Java prints it."""
    plain = section.group()
    shown = {}
    for key, option in options_of(section.group).items():
        value = getattr(plain, key)
        shown[option.name] = "null" if value in (None, ()) else option.type.show(value)
    return shown


@pytest.mark.parametrize("name", SECTIONS)
def test_every_option_of_the_java_client_is_known(name: str, properties: dict[str, dict[str, Property]]) -> None:
    section = SECTIONS[name]
    known = set(ours(section)) | set(section.ignored) | NOT_OPTIONS.get(name, set())
    assert set(properties[name]) - known == set()


@pytest.mark.parametrize("name", SECTIONS)
def test_no_option_is_made_up(name: str, properties: dict[str, dict[str, Property]]) -> None:
    section = SECTIONS[name]
    elsewhere = {ignored for ignored in section.ignored if ignored.startswith("blobTransferPolicy.")} | {
        "syncOnCommand"
    }
    assert set(ours(section)) | set(section.ignored) <= set(properties[name]) | NEWER | ELSEWHERE | elsewhere


@pytest.mark.parametrize("name", [name for name in SECTIONS if name not in ("consumer", "producer")])
def test_defaults_are_those_of_the_java_client(name: str, properties: dict[str, dict[str, Property]]) -> None:
    different = {}
    for option, default in ours(SECTIONS[name]).items():
        _, theirs = properties[name].get(option, ("", default))
        if theirs != UNREADABLE and {default, theirs} - UNSET and default != theirs:
            different[option] = (default, theirs)
    assert {option for option in different if option not in OUR_OWN} == set(), different


@pytest.mark.parametrize("name", SECTIONS)
def test_types_are_those_of_the_java_client(name: str, properties: dict[str, dict[str, Property]]) -> None:
    options = options_of(SECTIONS[name].group).values()
    switches = {option.name for option in options if isinstance(option.type, Switch)}
    theirs = {option for option, (kind, _) in properties[name].items() if kind.lower() == "boolean"}
    assert switches - NEWER - ELSEWHERE == theirs - set(SECTIONS[name].ignored)
