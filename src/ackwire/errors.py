"""Every exception of Ackwire, in one tree.

    AckwireError
    ├── LocalProtocolError        we tried to do what the protocol forbids: our bug
    ├── RemoteProtocolError       the peer broke the protocol: its connection ends, nothing else does
    ├── ConfigError               a setting or a URI that cannot be used; names it
    └── BrokerError               a request the broker refuses; the peer gets an error, the connection goes on
        ├── InvalidClientId           client id missing, or in use by another connection
        ├── InvalidDestination        the destination cannot be used that way
        │   └── DestinationGone           a temporary destination that was deleted or never made
        ├── InvalidSelector           a selector that does not parse
        ├── UnknownResource           connection, session, producer or consumer never announced
        ├── NotHere                   what somebody asks about does not exist here, or not any more
        ├── RangeGone                 messages that were committed before, or are lost
        ├── Conflict                  it contradicts what was done or agreed before
        ├── NotAuthorised             wrong credentials, or no right to do this
        ├── ResourceLimit             a stated limit is reached
        ├── StoreFailed               the store could not write or sync: it promises nothing any more
        └── Unsupported               understood, and not offered by this broker

Messages are lower case and carry the values: which destination, which limit, what to do.
"""


class AckwireError(Exception):
    """The root of the tree."""


class LocalProtocolError(AckwireError):
    """This side tried to send something that cannot be put on the wire."""


class RemoteProtocolError(AckwireError):
    """The peer sent bytes that break the protocol; the only exception a wire parser lets out."""


class ConfigError(AckwireError):
    """A setting, an option or a URI that cannot be used."""


class BrokerError(AckwireError):
    """A request that the broker refuses. Nothing of it has happened."""


class InvalidClientId(BrokerError):
    """The client id is missing or belongs to another connection."""


class InvalidDestination(BrokerError):
    """The destination does not exist or cannot be used that way."""


class DestinationGone(InvalidDestination):
    """A temporary destination that was deleted, or never made."""


class InvalidSelector(BrokerError):
    """The selector does not parse."""


class UnknownResource(BrokerError):
    """A connection, session, producer or consumer that was never announced."""


class NotHere(BrokerError):
    """The subject of a request does not exist in this broker, or not any more."""


class RangeGone(BrokerError):
    """Messages of a cursor that were committed and forgotten, or that are lost; the message says which numbers."""


class Conflict(BrokerError):
    """A request that contradicts what was agreed or done before: other terms, another order, an unknown part."""


class NotAuthorised(BrokerError):
    """Wrong credentials, or no right to do this."""


class ResourceLimit(BrokerError):
    """A stated limit is reached; the message names it."""


class StoreFailed(BrokerError):
    """The store could not write or sync what it was given; nothing more is acknowledged (K7)."""


class Unsupported(BrokerError):
    """Understood, and not offered by this broker."""
