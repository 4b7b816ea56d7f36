"""Places as numbers: no two share one, whatever the hash gives."""

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from ackwire.spark.audit import lifecycles
from ackwire.spark.audit.lifecycles import Spots

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import Column, SparkSession


def test_a_salt_that_gives_two_places_the_same_number_is_not_taken(
    spark: "SparkSession", monkeypatch: "pytest.MonkeyPatch"
) -> None:
    places = [("b", "queue://a", ""), ("b", "queue://b", ""), ("b", "topic://t", "c1"), ("b", "topic://t", "c2")]
    known = spark.createDataFrame(places, "broker string, place string, subscriber string")

    def poor(salt: int) -> "Column":
        return F.length("place").cast("bigint") if salt < 2 else real(salt)

    real = lifecycles._spot
    monkeypatch.setattr(lifecycles, "_spot", poor)
    spots = Spots.of(known)
    assert (spots.salt, spots.count) == (2, 4)
    named = spots.on(known).select("spot").join(spots.names(), "spot")
    assert sorted((it["broker"], it["place"], it["subscriber"]) for it in named.collect()) == places
