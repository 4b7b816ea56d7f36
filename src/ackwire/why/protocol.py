"""What a question to the broker looks like, for those who ask and for the broker that answers.

A message to the queue `Ackwire.Why` with the properties `subject` (one of `SUBJECTS`) and `name` is answered at its
JMSReplyTo by a copy with the properties `answer`, one sentence per line, and `found`, false if what was asked about
does not exist.
"""

from typing import Final

from ackwire.jms.destinations import Kind, destination

QUESTIONS: Final = destination(Kind.QUEUE, "Ackwire.Why")
SUBJECT: Final = "subject"
NAME: Final = "name"
ANSWER: Final = "answer"
FOUND: Final = "found"
SUBJECTS: Final = ("queue", "topic", "message", "producer", "consumer", "transaction", "file", "store", "broker")
