"""``format("kafkawire")`` of ``spark.read``, ``spark.readStream``, ``df.write`` and ``df.writeStream``."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)
from pyspark.sql.types import StructType

from ..options import ReadOptions, WriteOptions, read_options_of
from .batch_reader import KafkaWireBatchReader
from .exactly_once import create_exactly_once_writer
from .schema import read_schema
from .stream_reader import create_stream_reader
from .stream_writer import KafkaWireStreamWriter
from .writer import create_writer


class KafkaWireDataSource(DataSource):
    """Kafka without the JVM connector. Spark makes one for each ``load()`` and ``save()``."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``."""
        return "kafkawire"

    def schema(self) -> StructType:
        """All columns; a user's own schema is a projection of them. Spark does not tell here whether it is
        for a batch or for a stream."""
        return read_schema(read_options_of(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader for the asked columns. Raises ``OptionError`` for wrong options."""
        return KafkaWireBatchReader(ReadOptions.parse(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A writer for rows of ``schema``. Raises ``OptionError`` for wrong options or columns."""
        options = WriteOptions.parse(self.options)
        create = create_writer if options.transactions is None else create_exactly_once_writer
        return create(options, schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A stream of the asked columns, or one that tells what is wrong with the options."""
        return create_stream_reader(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A writer of one batch. Raises ``OptionError`` for wrong options or columns."""
        return KafkaWireStreamWriter(self.options, schema, overwrite)
