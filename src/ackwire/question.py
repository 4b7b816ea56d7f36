"""What a question to the broker looks like, for those who ask and for the broker that answers.

A message to the queue `Ackwire.Why` with the properties `subject` (one of `SUBJECTS`) and `name` is answered at its
JMSReplyTo by a copy with the property `answer`: one sentence per line.
"""

from typing import Final

from ackwire.destinations import Kind, destination

QUESTIONS: Final = destination(Kind.QUEUE, "Ackwire.Why")
SUBJECT: Final = "subject"
NAME: Final = "name"
ANSWER: Final = "answer"
SUBJECTS: Final = ("queue", "topic", "message", "producer", "consumer", "transaction", "file")
