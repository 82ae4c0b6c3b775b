"""``format("kafkawire")`` of ``spark.read``, ``spark.readStream``, ``df.write`` and ``df.writeStream``.

Spark looks the source up, and asks for its schema, its reader and its writer, each in a process of its own,
which begins with nothing imported, and a first query waits for all of them. So each method imports what it
needs itself; ``tests/test_imports.py`` says what that may be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyspark.sql.types import StructType

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
    )
except ImportError as error:
    raise ImportError(
        "spark-kafkawire needs Spark 4.0 or later, or Databricks 16.4 or later, and this is pyspark "
        f"{pyspark.__version__} without pyspark.sql.datasource.DataSourceArrowWriter: upgrade it",
        name=error.name,
    ) from None

from .edge import edge
from .worker import find_sent_files, freeze_imports

if TYPE_CHECKING:
    from .schema import Schemas

#: Option that Spark adds to those of a table of its catalog.
_OF_A_TABLE: Final = "provider"
# Spark passes this source the options of a table when it creates the table, and never again.
_WHY: Final = "Spark hands this source no options of a table when it is read or written"
_VIEW: Final = "use CREATE TEMPORARY VIEW name USING kafkawire OPTIONS (...)"
_WITH: Final = "give the options with each use, SELECT ... FROM name WITH (...)"


class KafkaWireDataSource(DataSource):
    """Kafka without the JVM connector. Spark makes one for each ``load()`` and ``save()``."""

    _has_reader = False
    #: Schemas of keys and values, fixed by ``schema()``; None where the user gave the columns.
    _schemas: Schemas | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The options travel until a reader has them. After that Spark pickles the source with the command of
        the tasks, which each of them gets, and looks at its name alone."""
        return {**self.__dict__, "options": {}, "_schemas": None} if self._has_reader else self.__dict__

    @classmethod
    @edge
    def name(cls) -> str:
        """The name for ``format()``. The process in which Spark looks for sources calls nothing else."""
        return "kafkawire"

    @edge
    def schema(self) -> StructType:
        """All columns; a user's own schema is a projection of them. Spark does not say here whether it plans
        a batch or a stream."""
        freeze_imports()
        from ..options import TableOptions, chooses_table, drop_other_side, read_options_of
        from .schema import ReadColumns, plan_columns

        _check_is_no_table(self.options)
        if chooses_table(self.options):
            from .table_reader import table_schema

            return ReadColumns(table_schema(TableOptions.parse(self.options)).fields)
        columns, self._schemas = plan_columns(read_options_of(drop_other_side(self.options, read=True)))
        return ReadColumns(columns.fields)

    @edge
    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader for the asked columns. Raises ``OptionError`` for wrong options."""
        freeze_imports()
        from ..options import ReadOptions, TableOptions, chooses_table, drop_other_side
        from .batch_reader import KafkaWireBatchReader
        from .spark_versions import struct_type

        _check_has_options(self.options)
        if chooses_table(self.options):
            from .table_reader import KafkaWireTableReader

            table = TableOptions.parse(self.options)
            self._has_reader = True
            return KafkaWireTableReader(table, struct_type(schema))
        options = ReadOptions.parse(drop_other_side(self.options, read=True))
        self._has_reader = True
        return KafkaWireBatchReader(options, struct_type(schema), self._schemas)

    @edge
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """A writer for rows of ``schema``. Raises ``OptionError`` for wrong options or columns."""
        freeze_imports()
        from ..options import WriteOptions, drop_other_side
        from .spark_versions import check_numbers_tasks, struct_type

        _check_has_options(self.options)
        options = WriteOptions.parse(drop_other_side(self.options, read=False))
        if options.transactions is not None:
            check_numbers_tasks(schema)
            from .exactly_once import create_exactly_once_writer

            return create_exactly_once_writer(options, struct_type(schema), overwrite)
        from .writer import create_writer

        return create_writer(options, struct_type(schema), overwrite)

    @edge
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A stream of the selected columns, or a reader that reports the wrong options."""
        freeze_imports()
        find_sent_files()
        from .spark_versions import HAS_READ_LIMITS, struct_type
        from .stream_reader import PositionStreamReader, create_stream_reader

        self._has_reader = True
        if HAS_READ_LIMITS:
            from .stream_limits import LimitedStreamReader

            return create_stream_reader(LimitedStreamReader, self.options, struct_type(schema), self._schemas)
        return create_stream_reader(PositionStreamReader, self.options, struct_type(schema), self._schemas)

    @edge
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002
        """A writer of one batch in any output mode. Raises ``OptionError`` for wrong options or columns."""
        freeze_imports()
        find_sent_files()
        from .spark_versions import check_stream_sinks, struct_type

        check_stream_sinks()
        from .stream_writer import KafkaWireStreamWriter

        return KafkaWireStreamWriter(self.options, struct_type(schema))


def _check_is_no_table(options: Mapping[str, str]) -> None:
    """Raise ``OptionError`` (fatal) if Spark is about to create a table without columns.

    Spark does not ask for the columns of a table that declares them: options with each use work there.
    """
    if _OF_A_TABLE in {name.lower() for name in options}:
        from ..errors import OptionError

        raise OptionError(
            f"CREATE TABLE ... USING kafkawire: {_WHY}; {_VIEW}, or declare its columns and {_WITH}"
        )


def _check_has_options(options: Mapping[str, str]) -> None:
    """Raise ``OptionError`` (fatal) if there are no options, as for each table."""
    if not options:
        from ..errors import OptionError

        raise OptionError(
            "no option is set, not even kafka.bootstrap.servers; where this is a table of the catalog: "
            f"{_WHY}; {_VIEW}, or {_WITH} or spark.read.options(...).table(name)"
        )
