"""Named values with JMS types: the properties of a message, and the body of a MapMessage.

Both are mappings. `entries["n"] = 5` writes an int and `entries["n"]` reads what is there with its own type;
`set_short("n", 5)` says which type to write, `get_long("n")` converts by JMS's table (conversions.py). A name that is
not there is no value (null) to the getters and a KeyError in brackets. Received entries are decoded when somebody first
looks, and are read-only until cleared.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Final, Protocol

from ackwire.client import conversions
from ackwire.client.errors import IllegalArgumentError, MessageFormatError, MessageNotWriteableError
from ackwire.jms.names import HEADERS, can_stand_in_selectors
from ackwire.jms.types import Int, Long, Value

_DEFINED: Final = frozenset({"JMSXDeliveryCount", "JMSXGroupID", "JMSXGroupSeq", "JMSXUserID"})
_GROUP_FIRST: Final = "JMSXGroupFirstForConsumer"
_KEPT_AS_THEY_ARE: Final = frozenset({str, bool, float, type(None)})
_SCHEDULING: Final[dict[str, Callable[[Value], Value]]] = {
    "AMQ_SCHEDULED_DELAY": lambda value: Long(conversions.as_long(value)),
    "AMQ_SCHEDULED_PERIOD": lambda value: Long(conversions.as_long(value)),
    "AMQ_SCHEDULED_REPEAT": lambda value: Int(conversions.as_int(value)),
}
"""Brokers look for these types; like ActiveMQ's client, ours converts what it is given."""


class TypedEntries(MutableMapping[str, Value]):
    """A mapping from names to values with JMS types."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._decode: Callable[[], Mapping[str, Value]] | None = None
        self._is_read_only = False

    @property
    def is_read_only(self) -> bool:
        """Whether these were received and not cleared since."""
        return self._is_read_only

    def receive(self, decode: Callable[[], Mapping[str, Value]]) -> None:
        """Hold what *decode* returns, read-only; it is called when somebody first looks."""
        self._decode = decode
        self._is_read_only = True

    def renew(self) -> None:
        """Forget all entries; new ones can be written, even if these were read-only."""
        self._decode = None
        self._is_read_only = False
        self._values = {}

    def own(self) -> dict[str, Value]:
        """The entries that are encoded as such; not for changing."""
        if self._decode is not None:
            self._values = dict(self._decode())
            self._decode = None
        return self._values

    @abstractmethod
    def _checked(self, name: str, value: Value) -> Value:
        """*value* as it is kept under *name*; raises if one of them cannot be."""

    def _check_writeable(self) -> None:
        if self._is_read_only:
            raise MessageNotWriteableError("the message was received, and this part of it is read-only until cleared")

    # ---- a mapping ---------------------------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Value:
        return self.own()[name]

    def __setitem__(self, name: str, value: Value) -> None:
        self._check_writeable()
        self.own()[name] = self._checked(name, value)

    def __delitem__(self, name: str) -> None:
        self._check_writeable()
        del self.own()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.own())

    def __len__(self) -> int:
        return len(self.own())

    def clear(self) -> None:
        self._check_writeable()
        self.renew()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({dict(self)!r})"

    # ---- reading with conversion -------------------------------------------------------------------------------

    def get_boolean(self, name: str) -> bool:
        return conversions.as_boolean(self.get(name))

    def get_byte(self, name: str) -> int:
        return conversions.as_byte(self.get(name))

    def get_short(self, name: str) -> int:
        return conversions.as_short(self.get(name))

    def get_int(self, name: str) -> int:
        return conversions.as_int(self.get(name))

    def get_long(self, name: str) -> int:
        return conversions.as_long(self.get(name))

    def get_float(self, name: str) -> float:
        return conversions.as_float(self.get(name))

    def get_double(self, name: str) -> float:
        return conversions.as_double(self.get(name))

    def get_string(self, name: str) -> str | None:
        return conversions.as_string(self.get(name))

    # ---- writing with a type -----------------------------------------------------------------------------------

    def set_boolean(self, name: str, value: bool) -> None:
        self[name] = conversions.boolean_of(value)

    def set_byte(self, name: str, value: int) -> None:
        self[name] = conversions.integer_of(value, "byte")

    def set_short(self, name: str, value: int) -> None:
        self[name] = conversions.integer_of(value, "short")

    def set_int(self, name: str, value: int) -> None:
        self[name] = conversions.integer_of(value, "int")

    def set_long(self, name: str, value: int) -> None:
        self[name] = conversions.integer_of(value, "long")

    def set_float(self, name: str, value: float) -> None:
        self[name] = conversions.float_of(value)

    def set_double(self, name: str, value: float) -> None:
        self[name] = conversions.double_of(value)

    def set_string(self, name: str, value: str | None) -> None:
        self[name] = conversions.string_of(value)


class MapEntries(TypedEntries):
    """The body of a MapMessage; beside the types of properties it takes chars and bytes."""

    def _checked(self, name: str, value: Value) -> Value:
        check_name("an entry of a MapMessage", name)
        return _typed(value)

    def get_char(self, name: str) -> str:
        return conversions.as_char(self.get(name))

    def get_bytes(self, name: str) -> bytes | None:
        return conversions.as_bytes(self.get(name))

    def set_char(self, name: str, value: str) -> None:
        self[name] = conversions.char_of(value)

    def set_bytes(self, name: str, value: bytes | bytearray | memoryview | None) -> None:
        self[name] = conversions.bytes_of(value)


class DefinedProperties(Protocol):
    """A message, as its properties see it: the attributes that JMS defines as properties (JMSX…)."""

    redelivered: bool
    group_first: bool

    @property
    def group_id(self) -> str | None: ...

    @group_id.setter
    def group_id(self, value: str | None) -> None: ...

    @property
    def group_sequence(self) -> int: ...

    @group_sequence.setter
    def group_sequence(self, value: int) -> None: ...

    @property
    def user_id(self) -> str | None: ...

    @user_id.setter
    def user_id(self, value: str | None) -> None: ...

    @property
    def delivery_count(self) -> int: ...

    @delivery_count.setter
    def delivery_count(self, value: int) -> None: ...


class Properties(TypedEntries):
    """The properties of a message, those that JMS defines (JMSX…) included.

    JMSXGroupID, JMSXGroupSeq, JMSXUserID and JMSXDeliveryCount are the message's attributes under their JMS names. As
    with ActiveMQ's client they are listed when they have something to say (a group, a user, a redelivery), and
    JMSXDeliveryCount and JMSXGroupFirstForConsumer can be asked for at any time.
    """

    def __init__(self, message: DefinedProperties) -> None:
        super().__init__()
        self._message = message

    def __getitem__(self, name: str) -> Value:
        if name in _DEFINED and (name == "JMSXDeliveryCount" or name in self._listed()):
            return self._defined(name)
        if name == _GROUP_FIRST:
            return self._message.group_first
        return super().__getitem__(name)

    def __setitem__(self, name: str, value: Value) -> None:
        self._check_writeable()
        match name:
            case "JMSXGroupID":
                self._message.group_id = conversions.as_string(value)
            case "JMSXGroupSeq":
                self._message.group_sequence = conversions.as_int(value)
            case "JMSXUserID":
                self._message.user_id = conversions.as_string(value)
            case "JMSXDeliveryCount":
                self._message.delivery_count = conversions.as_int(value)
            case _:
                super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self._check_writeable()
        if name not in self._listed():
            super().__delitem__(name)
        elif name == "JMSXUserID":
            self._message.user_id = None
        elif name == "JMSXDeliveryCount":
            self._message.redelivered = False
        else:  # a sequence without its group says nothing
            self._message.group_id, self._message.group_sequence = None, 0

    def __iter__(self) -> Iterator[str]:
        listed = self._listed()
        yield from listed
        yield from (name for name in self.own() if name not in listed)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def renew(self) -> None:
        super().renew()
        self._message.group_id, self._message.group_sequence, self._message.user_id = None, 0, None

    def _listed(self) -> list[str]:
        message = self._message
        names = ["JMSXDeliveryCount"] if message.redelivered else []
        names += ["JMSXGroupID", "JMSXGroupSeq"] if message.group_id is not None else []
        return names + (["JMSXUserID"] if message.user_id is not None else [])

    def _defined(self, name: str) -> Value:
        message = self._message
        values: dict[str, Value] = {
            "JMSXDeliveryCount": Int(message.delivery_count),
            "JMSXGroupID": message.group_id,
            "JMSXGroupSeq": Int(message.group_sequence),
            "JMSXUserID": message.user_id,
        }
        return values[name]

    def _checked(self, name: str, value: Value) -> Value:
        check_property_name(name)
        if isinstance(value, bytes | bytearray | memoryview):
            raise MessageFormatError("a property cannot be byte[]; a body can")
        convert = _SCHEDULING.get(name)
        return _typed(value) if convert is None or value is None else convert(conversions.typed(value))


def _typed(value: Value) -> Value:
    """`conversions.typed`, without asking it for what stays as it is."""
    return value if type(value) in _KEPT_AS_THEY_ARE else conversions.typed(value)


def check_name(what: str, name: object) -> None:
    """Raise `IllegalArgumentError` unless *name* is text, and not empty."""
    if not isinstance(name, str) or not name:
        raise IllegalArgumentError(f"{what} needs a name")


def check_property_name(name: str) -> None:
    """Raise `IllegalArgumentError` unless *name* can be used in a selector: a Java identifier and no word of selectors.

    Received properties may have any names; other clients and protocols are less strict.
    """
    check_name("a property", name)
    if name in HEADERS:
        raise IllegalArgumentError(f"{name} is a header and no property: set the message's {HEADERS[name]}")
    if not can_stand_in_selectors(name):
        raise IllegalArgumentError(f"{name!r} cannot name a property: selectors could not name it")
