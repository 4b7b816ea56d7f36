"""What an operator's request to a running broker looks like, for those who ask and for the broker that carries it out.

A message to the queue `Ackwire.Operations` with the property `verb` and what that needs (`queue`, `to`, `ids`,
`selector`, `after`, `dry_run`) is answered at its JMSReplyTo by copies with the properties `outcome`, `count` and
`answer`. Long work is answered more than once: `outcome` is `working` until it is at its end.
"""

from typing import Final

from ackwire.jms.destinations import Kind, destination

OPERATIONS: Final = destination(Kind.QUEUE, "Ackwire.Operations")

VERB: Final = "verb"
QUEUE: Final = "queue"
"""A destination, as `queue://orders`; for `list` a pattern."""
TARGET: Final = "to"
IDS: Final = "ids"
"""Message ids, one in each line."""
SELECTOR: Final = "selector"
AFTER: Final = "after"
"""For `list`: the name after which to go on."""
DRY_RUN: Final = "dry_run"
"""Only say how many messages are meant."""

OUTCOME: Final = "outcome"
COUNT: Final = "count"
ANSWER: Final = "answer"
"""A sentence; for `list`, JSON."""

WORKING: Final = "working"
DONE: Final = "done"
REFUSED: Final = "refused"
NOT_HERE: Final = "not here"

QUEUE_VERBS: Final = ("list", "create", "purge", "pause", "resume", "recall", "delete")
MESSAGE_VERBS: Final = ("move", "copy", "retry", "delete")
CHECKPOINT: Final = "checkpoint"
"""The verb that concerns the store, and no destination."""
DELETE_MESSAGES: Final = "delete messages"
"""The verb for messages, because `delete` is that for queues."""
