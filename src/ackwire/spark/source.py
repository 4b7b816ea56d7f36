"""`format("ackwire")`: what Spark asks for first, and gets readers and writers from.

Options are checked here, on the driver, before anything starts. Readers and writers are plain values: Spark copies
them to the executors. Their modules are imported when needed: Spark imports this one whenever a session first uses any
Python data source.
"""

from typing import TYPE_CHECKING

from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    SimpleDataSourceStreamReader,
)

from ackwire.spark.errors import BadOption
from ackwire.spark.options import Use, read_options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class AckwireSource(DataSource):
    """Messages as rows, rows as messages."""

    @classmethod
    def name(cls) -> str:
        return "ackwire"

    def schema(self) -> "StructType":
        from ackwire.spark.columns import message_columns

        return message_columns()

    def reader(self, schema: "StructType") -> DataSourceReader:
        from ackwire.spark.columns import chosen_columns

        options = read_options(self.options, Use.READ)
        columns = chosen_columns(schema)
        if options.is_for_activemq:
            from ackwire.spark.activemq import BrowsingReader

            return BrowsingReader(options, columns)
        from ackwire.spark.reader import BatchReader

        return BatchReader(options, columns)

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:
        from ackwire.spark.columns import chosen_columns
        from ackwire.spark.reader import CursorReader

        options = read_options(self.options, Use.READ_STREAM)
        if options.is_for_activemq:
            # Spark's sign for: take the simple one.
            raise PySparkNotImplementedError(
                errorClass="NOT_IMPLEMENTED", messageParameters={"feature": "streamReader"}
            )
        return CursorReader(options, chosen_columns(schema))

    def simpleStreamReader(self, schema: "StructType") -> SimpleDataSourceStreamReader:
        from ackwire.spark.activemq import ConsumingReader
        from ackwire.spark.columns import chosen_columns

        return ConsumingReader(read_options(self.options, Use.READ_STREAM), chosen_columns(schema))

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        from ackwire.spark.columns import plan_write

        _refuse_overwriting(overwrite)
        options = read_options(self.options, Use.WRITE)
        plan = plan_write(schema, options)
        if options.is_for_activemq:
            from ackwire.spark.activemq import SendingWriter

            return SendingWriter(options, plan)
        from ackwire.spark.writer import BatchWriter

        return BatchWriter(options, plan)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> DataSourceStreamWriter:
        from ackwire.spark.columns import plan_write

        _refuse_overwriting(overwrite)
        options = read_options(self.options, Use.WRITE_STREAM)
        plan = plan_write(schema, options)
        if options.is_for_activemq:
            from ackwire.spark.activemq import SendingStreamWriter

            return SendingStreamWriter(options, plan)
        from ackwire.spark.writer import StreamWriter

        return StreamWriter(options, plan)


def _refuse_overwriting(overwrite: bool) -> None:
    if overwrite:
        raise BadOption('messages cannot be overwritten: use .mode("append"), or outputMode("append") or ("update")')
