"""Columns with types out of a message's properties, which travel as text.

    from ackwire.spark.functions import message_property, with_properties

    orders.where(message_property("amount", "double") > 100)
    with_properties(orders, country="string", amount="double")

A property that is missing, or whose text is no such value, is null.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def message_property(name: str, type_name: str = "string", column: "str | Column" = "properties") -> "Column":
    """The property *name* as a column of a Spark type: string, int, long, double, boolean, …"""
    return _entry(column, name, type_name)


def map_entry(name: str, type_name: str = "string", column: "str | Column" = "map") -> "Column":
    """The entry *name* of a map message's body as a column of a Spark type."""
    return _entry(column, name, type_name)


def with_properties(frame: "DataFrame", **types: str) -> "DataFrame":
    """The DataFrame with a column for each property named, of the type given."""
    return frame.withColumns({name: message_property(name, kind) for name, kind in types.items()})


def _entry(column: "str | Column", name: str, type_name: str) -> "Column":
    from pyspark.sql import functions

    entries: Any = functions.col(column) if isinstance(column, str) else column
    value: Column = functions.element_at(entries, functions.lit(name))
    return value if type_name == "string" else value.try_cast(type_name)
