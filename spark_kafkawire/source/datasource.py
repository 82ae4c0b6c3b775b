"""``format("kafkawire")`` of ``spark.read``, ``spark.readStream``, ``df.write`` and ``df.writeStream``.

Spark looks the source up, and asks for its schema, its reader and its writer, each in a process of its own,
which begins with nothing imported, and a first query waits for all of them. So each method imports what it
needs itself; ``tests/test_imports.py`` says what that may be.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)
from pyspark.sql.types import StructType

from .worker import begin


class KafkaWireDataSource(DataSource):
    """Kafka without the JVM connector. Spark makes one for each ``load()`` and ``save()``."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``."""
        return "kafkawire"

    def schema(self) -> StructType:
        """All columns; a user's own schema is a projection of them. Spark does not tell here whether it is
        for a batch or for a stream."""
        begin()
        from ..options import of_side, read_options_of
        from .schema import read_schema
        from .tables import check_is_no_table

        check_is_no_table(self.options)
        return read_schema(read_options_of(of_side(self.options, read=True)))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader for the asked columns. Raises ``OptionError`` for wrong options."""
        begin()
        from ..options import ReadOptions, of_side
        from .batch_reader import KafkaWireBatchReader
        from .tables import check_has_options

        check_has_options(self.options)
        options = ReadOptions.parse(of_side(self.options, read=True))
        return KafkaWireBatchReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A writer for rows of ``schema``. Raises ``OptionError`` for wrong options or columns."""
        begin()
        from ..options import WriteOptions, of_side
        from .tables import check_has_options

        check_has_options(self.options)
        options = WriteOptions.parse(of_side(self.options, read=False))
        if options.transactions is not None:
            from .exactly_once import create_exactly_once_writer

            return create_exactly_once_writer(options, schema, overwrite)
        from .writer import create_writer

        return create_writer(options, schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A stream of the asked columns, or one that tells what is wrong with the options."""
        begin()
        from .spark_versions import HAS_READ_LIMITS
        from .stream_reader import create_stream_reader

        if HAS_READ_LIMITS:
            from .stream_limits import LimitedStreamReader

            return create_stream_reader(LimitedStreamReader, self.options, schema)
        from .stream_unlimited import UnlimitedStreamReader

        return create_stream_reader(UnlimitedStreamReader, self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A writer of one batch. Raises ``OptionError`` for wrong options or columns."""
        begin()
        from .spark_versions import check_stream_sinks

        check_stream_sinks()
        from .stream_writer import KafkaWireStreamWriter

        return KafkaWireStreamWriter(self.options, schema, overwrite)
