"""The declarations in commands.py say what openwire.json says, field by field."""

from typing import Any, Final

import pytest

from ackwire.wire.openwire import commands
from ackwire.wire.openwire.marshal import MAGIC_BYTES
from ackwire.wire.openwire.structures import REGISTRY, VERSION_MAX, VERSION_MIN, Field, Structure, fields_of
from tests.unit.wire.openwire.vectors import read_json, snake_case, structure_class

SPECIFICATION: Final[dict[str, Any]] = read_json("openwire.json")
STRUCTURES: Final[list[dict[str, Any]]] = SPECIFICATION["structures"]

JSON_TYPES: Final = {
    "bool": "bool",
    "byte": "byte",
    "int": "int",
    "long": "long",
    "string": "string",
    "bytes": "bytes",
    "bytes_fixed": "magic",
    "nested_object": "nested",
    "cached_object": "cached",
    "object_array": "array",
    "throwable": "throwable",
}
ZERO_VALUES: Final[dict[str, object]] = {
    "bool": False,
    "byte": 0,
    "int": 0,
    "long": 0,
    "magic": commands.MAGIC,
}


def by_name(entry: dict[str, Any]) -> str:
    return str(entry["name"])


def effective_since(cls: type[Structure], field: Field) -> int:
    """A field is not older than its structure."""
    return max(field.since, cls.SINCE)


def test_every_structure_is_declared_and_no_other() -> None:
    assert len(STRUCTURES) == 57
    declared = {str(type_id): cls.__name__ for type_id, cls in REGISTRY.items()}
    assert declared == SPECIFICATION["type_ids"]


def test_versions_span_those_of_the_specification() -> None:
    versions = SPECIFICATION["protocol_versions"]
    assert (versions["min"], versions["max"]) == (VERSION_MIN, VERSION_MAX)


@pytest.mark.parametrize("entry", STRUCTURES, ids=by_name)
def test_structure_is_declared_as_specified(entry: dict[str, Any]) -> None:
    cls = structure_class(entry["name"])
    assert entry["type_id"] == cls.TYPE_ID
    assert entry["since"] == cls.SINCE
    assert entry["marshall_aware"] == cls.MARSHALL_AWARE
    ancestors = [base.__name__ for base in cls.__mro__[1:]]
    assert [name for name in reversed(ancestors) if name in entry["parents"]] == entry["parents"]
    declared = [
        (field.name, field.wire_type.value, effective_since(cls, field), field.until) for field in fields_of(cls)
    ]
    assert declared == [
        (snake_case(field["name"]), JSON_TYPES[field["type"]], field["since"], field.get("until", VERSION_MAX))
        for field in entry["fields"]
    ]
    for field, specified in zip(fields_of(cls), entry["fields"], strict=True):
        assert_accepts_what_is_specified(field, specified)
        assert_defaults_to_what_a_new_java_object_holds(field, specified)


def assert_accepts_what_is_specified(field: Field, specified: dict[str, Any]) -> None:
    if "of" not in specified:
        assert field.accepts is Structure
        return
    expected = "Structure" if specified["of"] == "DataStructure" else specified["of"]
    assert field.accepts.__name__ == expected, field.name
    if "concrete" in specified:
        concrete = {cls.__name__ for cls in REGISTRY.values() if issubclass(cls, field.accepts)}
        assert concrete == set(specified["concrete"]), field.name


def assert_defaults_to_what_a_new_java_object_holds(field: Field, specified: dict[str, Any]) -> None:
    default = specified.get("java_default", ZERO_VALUES.get(field.wire_type.value))
    assert field.default == default, field.name
    assert type(field.default) is type(default), field.name


def test_exactly_ids_and_destinations_are_values() -> None:
    for cls in REGISTRY.values():
        assert (cls.TYPE_ID in range(100, 130)) == cls.IS_VALUE, cls
        if cls.IS_VALUE:
            assert hash(cls()) == hash(cls())


def test_magic_has_its_specified_size() -> None:
    [magic] = [field for entry in STRUCTURES for field in entry["fields"] if field["type"] == "bytes_fixed"]
    assert magic["size"] == MAGIC_BYTES == len(commands.MAGIC)
    assert SPECIFICATION["constants"]["protocol_magic_ascii"].encode() == commands.MAGIC


@pytest.mark.parametrize(
    ("constants", "enumeration"),
    [
        ("ack_type", commands.AckType),
        ("transaction_type", commands.TransactionType),
        ("destination_operation", commands.DestinationOperation),
    ],
)
def test_constants_are_those_of_the_specification(constants: str, enumeration: Any) -> None:
    assert {member.name: member.value for member in enumeration} == SPECIFICATION["constants"][constants]


def test_text_of_an_id_is_the_one_java_shows() -> None:
    producer = commands.ProducerId("ID:a-1", value=7, session_id=3)
    assert str(producer) == "ID:a-1:3:7"
    assert str(commands.ConsumerId("ID:a-1", session_id=3, value=7)) == "ID:a-1:3:7"
    assert str(commands.SessionId("ID:a-1", 3)) == "ID:a-1:3"
    assert str(commands.ConnectionId("ID:a-1")) == "ID:a-1"
    assert str(commands.MessageId(None, producer, 12)) == "ID:a-1:3:7:12"


def test_foreign_message_id_stands_in_for_ours() -> None:
    assert str(commands.MessageId("ID:foreign", None, 1)) == "ID:foreign"
    assert str(commands.MessageId("foreign", None, 1)) == "ID:foreign"
