"""Limits of the client that no URL option names, and which options count where."""

from typing import Final

from ackwire.client.errors import IllegalArgumentError, InvalidDestinationError
from ackwire.client.options import ConnectionOptions, ConsumerOptions, PrefetchPolicy, RedeliveryPolicy
from ackwire.client.uri import DestinationUri, parse_destination_uri
from ackwire.errors import ConfigError
from ackwire.jms.destinations import Destination, Kind, matches_pattern

REQUEST_TIMEOUT_SECONDS: Final = 60.0
"""For an answer of the broker where no option says otherwise: longer than a failover takes, shorter than a night."""

RECEIVE_TIMEOUT_SECONDS: Final = 60.0
"""For `receive()` without a timeout."""

PULL_GRACE_SECONDS: Final = 2.0
"""A broker that is asked for a message says itself when there is none: how much later than asked it may do so."""

REDELIVERY_GRACE_SECONDS: Final = 1.0
"""After a reconnect inside a transaction: how long a commit waits for what was consumed to come again, unless
consumerFailoverRedeliveryWaitPeriod says otherwise."""


Where = Destination | DestinationUri | str
"""How an application names a destination: as such, as text, or as a configuration file has it."""


def read_destination(where: Where, default: Kind = Kind.QUEUE) -> DestinationUri:
    """The destination that an application named, with its options."""
    if isinstance(where, DestinationUri):
        return where
    if isinstance(where, Destination):
        return DestinationUri(where)
    if not isinstance(where, str):
        raise InvalidDestinationError(f"a destination is needed, not {where!r}")
    try:
        return parse_destination_uri(where, default=default)
    except ConfigError as error:
        raise InvalidDestinationError(str(error)) from None


def prefetch_for(
    options: ConnectionOptions,
    consumer: ConsumerOptions,
    where: Destination,
    *,
    is_durable: bool,
    is_browser: bool,
    is_auto: bool = False,
) -> int:
    """How many messages may be pushed ahead (C2); only AUTO sessions honour optimizeAcknowledge (D2)."""
    if consumer.prefetch_size is not None:
        return consumer.prefetch_size
    policy: PrefetchPolicy = options.prefetch
    if is_browser:
        return policy.queue_browser_prefetch
    if where.kind.is_queue:
        return policy.queue_prefetch
    if is_durable:
        is_optimized = is_auto and options.optimize_acknowledge
        return policy.optimize_durable_topic_prefetch if is_optimized else policy.durable_topic_prefetch
    return policy.topic_prefetch


def policy_for(
    policies: "dict[Destination | str, RedeliveryPolicy]", where: Destination, default: RedeliveryPolicy
) -> RedeliveryPolicy:
    """The policy for *where*: by its name, else by the first pattern that matches, else *default* (F2)."""
    patterns = [(read_destination(name).destination, policy) for name, policy in policies.items()]
    for name, policy in patterns:
        if name == where:
            return policy
    for name, policy in patterns:
        if name.kind is where.kind and matches_pattern(name.name, where.name):
            return policy
    return default


def check_option(name: str, value: object) -> None:
    """Raise `IllegalArgumentError` if *value* is not of the type that the connection's option *name* has."""
    default = getattr(ConnectionOptions(), name, None)
    if default is None:  # text, or a name that is unknown: that shows elsewhere
        wanted: tuple[type, ...] = (str, type(None))
    elif type(default) is float:
        wanted = (float, int)
    else:
        wanted = (type(default),)
    if hasattr(ConnectionOptions(), name) and type(value) not in wanted:
        names = " or ".join(it.__name__ for it in wanted if it is not type(None))
        raise IllegalArgumentError(f"option {name} is {names}, not {type(value).__name__}")
