"""How the broker is configured for a test module: `BROKER_VARIANT = "policies"` in it names a variant here.

One place for both brokers: *activemq* are settings for the real one (see `java/broker/Settings.java`),
*ackwire* is the TOML file that says the same to ours. Policies go by destination name, so one variant serves
many tests: what each name stands for is written beside it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Variant:
    activemq: tuple[str, ...] = ()
    ackwire: str = ""


_POLICIES = """
[destinations]
expiry_sweep_seconds = "100 ms"

[[policy]]
match = "queue://individual.>"
dead_letters = "individual"
dead_letter_queue_prefix = "DLQ."

[[policy]]
match = "topic://individual.>"
dead_letters = "individual"
dead_letter_topic_prefix = "DLQ."

[[policy]]
match = "topic://individual-each.>"
dead_letters = "individual"
dead_letter_topic_prefix = "DLQ."
dead_letter_once = false

[[policy]]
match = "queue://discard.>"
dead_letters = "discard"

[[policy]]
match = "queue://unexpired.>"
dead_letter_expired = false

[[policy]]
match = "queue://volatile.>"
dead_letter_non_persistent = true

[[policy]]
match = "queue://prioritized.>"
prioritized = true

[[policy]]
match = "topic://prioritized.>"
prioritized = true

[[policy]]
match = "topic://evicting.>"
topic_pending_messages_max = 10
advise_slow_consumers = true

[[policy]]
match = "topic://evicting-lowest.>"
topic_pending_messages_max = 3
eviction = "lowest-priority"

[[policy]]
match = "queue://lazy.>"
prioritized = true

[[policy]]
match = "topic://recover-count.>"
retained_messages_max = 3

[[policy]]
match = "topic://recover-last.>"
retained_messages_max = 1

[[policy]]
match = "topic://always-retroactive.>"
retained_messages_max = 3
retroactive_by_default = true

[[policy]]
match = "queue://advisories.>"
advise_slow_consumers = true
advise_full = true
advise_no_consumers = true
advise_delivered = true
advise_consumed = true
memory_bytes_max = 20000

[[policy]]
match = "topic://advisories.>"
advise_slow_consumers = true
advise_no_consumers = true

[[policy]]
match = "queue://two-consumers.>"
consumers_before_dispatch = 2
dispatch_wait_seconds_max = "10 s"

[[policy]]
match = "queue://exclusive.>"
exclusive_by_default = true

[[policy]]
match = "queue://small.>"
memory_bytes_max = 20000

[[policy]]
match = "queue://small-failing.>"
memory_bytes_max = 20000
when_full = "fail"

[[policy]]
match = "queue://small-failing-later.>"
memory_bytes_max = 20000
block_timeout_seconds = "200 ms"
"""

_FULL = """
[limits]
memory_bytes_max = 60000
[store]
kind = "memory"
"""

# Small files, so that little has to be sent to fill them; and little memory, so that messages spill.
_FULL_STORE = """
[limits]
memory_bytes_max = 60000
store_bytes_max = "1 MiB"
temp_bytes_max = "300 KiB"
[store]
segment_bytes = "64 KiB"
free_bytes_min = 0
"""

_PLUGINS = """
[clocks]
correction = "both"

[[policy]]
match = ">"
expiration_ceiling_seconds = "60 s"
expiration_default_seconds = "30 s"
broker_redelivery = true
redeliveries_max = 2
redelivery_delay_seconds = "1 s"
"""

VARIANTS = {
    "default": Variant(),
    "policies": Variant(
        activemq=(
            # Dead letters: one queue per destination, none at all, and the switches.
            "policy;for=queue://individual.>;deadLetters=individual;deadLetters.queuePrefix=DLQ.",
            "policy;for=topic://individual.>;deadLetters=individual;deadLetters.topicPrefix=DLQ.;expireMessagesPeriod=100",
            # A dead letter from each durable subscriber.
            "policy;for=topic://individual-each.>;deadLetters=individual;deadLetters.topicPrefix=DLQ."
            ";deadLetters.enableAudit=false",
            "policy;for=queue://discard.>;deadLetters=discard;expireMessagesPeriod=100",
            "policy;for=queue://unexpired.>;deadLetters=shared;deadLetters.processExpired=false;expireMessagesPeriod=100",
            "policy;for=queue://volatile.>;deadLetters=shared;deadLetters.processNonPersistent=true;expireMessagesPeriod=100",
            # Messages are looked through for expired ones ten times a second, not every 30 seconds.
            "policy;for=queue://expiring.>;expireMessagesPeriod=100",
            "policy;for=queue://prioritized.>;prioritizedMessages=true",
            "policy;for=topic://prioritized.>;prioritizedMessages=true",
            # Slow topic subscribers keep ten messages beyond their prefetch, then lose the oldest.
            "policy;for=topic://evicting.>;pendingLimit=10;advisoryForDiscardingMessages=true"
            ";advisoryForSlowConsumers=true",
            "policy;for=topic://evicting-lowest.>;pendingLimit=3;evictLowestPriority=true",
            # Priorities, and consumers that are sent a message only when they have nothing else to do.
            "policy;for=queue://lazy.>;prioritizedMessages=true;lazyDispatch=true",
            # What retroactive subscribers are given.
            "policy;for=topic://recover-count.>;recoverCount=3",
            "policy;for=topic://recover-last.>;recoverLast=true",
            "policy;for=topic://always-retroactive.>;recoverCount=3;alwaysRetroactive=true",
            # Advisories that are off by default.
            "policy;for=queue://advisories.>;advisoryForSlowConsumers=true;advisoryForDelivery=true"
            ";advisoryForConsumed=true;advisoryForFastProducers=true;advisoryWhenFull=true"
            ";sendAdvisoryIfNoConsumers=true;expireMessagesPeriod=100;memoryLimit=20000",
            "policy;for=topic://advisories.>;sendAdvisoryIfNoConsumers=true;advisoryForSlowConsumers=true",
            # Queues that wait for consumers, or treat all of them as exclusive.
            "policy;for=queue://two-consumers.>;consumersBeforeDispatchStarts=2;timeBeforeDispatchStarts=10000",
            "policy;for=queue://exclusive.>;allConsumersExclusiveByDefault=true",
            # A small memory limit for each destination: producers wait, or fail.
            "policy;for=queue://small.>;memoryLimit=20000",
            "policy;for=queue://small-failing.>;memoryLimit=20000;sendFailIfNoSpace=true",
            "policy;for=queue://small-failing-later.>;memoryLimit=20000;sendFailIfNoSpaceAfterTimeout=200",
        ),
        ackwire=_POLICIES,
    ),
    # Messages and durable subscriptions are on disk, in KahaDB and in our journal.
    "stored": Variant(activemq=("broker;persistent=true",)),
    # ActiveMQ always offers XPATH in selectors.
    "xpath": Variant(ackwire="[selectors]\nxpath = true\n"),
    # Ours knows no passwords yet.
    "users": Variant(activemq=("users;alice=her-password",)),
    "scheduler": Variant(activemq=("broker;schedulerSupport=true",)),
    # All limits of the broker as a whole: memory for a few messages.
    "full": Variant(activemq=("usage;memory=60000",), ackwire=_FULL),
    "full disk": Variant(ackwire=_FULL_STORE),
    # What ActiveMQ has plugins for. No message lives longer than the ceiling, and those without an expiration
    # get one; the broker itself redelivers what clients give up on, which needs the scheduler.
    "plugins": Variant(
        activemq=(
            "broker;schedulerSupport=true",
            "timestamps;ttlCeiling=60000;zeroExpirationOverride=30000",
            "redelivery;maximumRedeliveries=2;initialRedeliveryDelay=1000;redeliveryDelay=1000",
        ),
        ackwire=_PLUGINS,
    ),
}
