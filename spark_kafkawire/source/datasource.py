"""``spark.read.format("kafkawire")`` and ``df.write.format("kafkawire")``."""

from __future__ import annotations

from typing import Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
)
from pyspark.sql.types import StructType

from ..errors import OptionError
from ..options import ReadOptions, WriteOptions
from .batch_reader import KafkaWireBatchReader
from .schema import read_schema
from .writer import create_writer

_NO_STREAMING: Final = "kafkawire does not stream yet: use spark.read and df.write, or foreachBatch"


class KafkaWireDataSource(DataSource):
    """Kafka without the JVM connector. Spark makes one for each ``load()`` and ``save()``."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format()``."""
        return "kafkawire"

    def schema(self) -> StructType:
        """All columns; a user's own schema is a projection of them."""
        return read_schema(ReadOptions.parse(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader for the asked columns. Raises ``OptionError`` for wrong options."""
        return KafkaWireBatchReader(ReadOptions.parse(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A writer for rows of ``schema``. Raises ``OptionError`` for wrong options or columns."""
        return create_writer(WriteOptions.parse(self.options), schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002
        """Refused. Raises ``OptionError``."""
        raise OptionError(_NO_STREAMING)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002
        """Refused. Raises ``OptionError``."""
        raise OptionError(_NO_STREAMING)
