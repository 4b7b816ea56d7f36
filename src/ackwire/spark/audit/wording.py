"""Words of the sentences that the tables contain."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column


def amount(count: str, noun: str) -> "Column":
    """The number in the column *count* with its *noun*: "1 message", "2 messages"."""
    number = F.col(count)
    return F.concat_ws(" ", number.cast("string"), F.when(number == 1, F.lit(noun)).otherwise(F.lit(f"{noun}s")))
