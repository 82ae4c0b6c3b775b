"""The input of ``publish``: files of any format of Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from py4j.protocol import Py4JJavaError
from pyspark.errors import IllegalArgumentException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_kafkawire.errors import OptionError, quoted

from ..shell.java_errors import reason_of


@dataclass(frozen=True, slots=True)
class Input:
    """Files or folders and how Spark reads them; ``schema`` is DDL."""

    paths: Sequence[str]
    format: str = "parquet"
    format_options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None

    def load(self, spark: SparkSession) -> DataFrame:
        """The rows. Raises ``OptionError`` (fatal) that names the argument at fault."""
        reader = spark.read.format(self.format).options(**self.format_options)
        if self.schema is not None:
            reader = reader.schema(_parsed(self.schema))
        try:
            return reader.load([*self.paths])
        except (Py4JJavaError, PySparkException) as error:
            raise self._refused(error) from error

    def _refused(self, error: Py4JJavaError | PySparkException) -> OptionError:
        reason = reason_of(error) if isinstance(error, Py4JJavaError) else _first_line(error)
        if "DATA_SOURCE_NOT_FOUND" in reason:
            return OptionError(
                f"argument --format: Spark has no format {quoted(self.format)}; give parquet, "
                "json, csv, orc or text; others come with packages"
            )
        return OptionError(
            f"argument --input: cannot be read with --format {self.format}, and --format-option and --schema "
            f"as they are: {reason}"
        )


def _parsed(ddl: str) -> StructType:
    problem = "it is empty"
    try:
        if isinstance(schema := StructType.fromDDL(ddl), StructType) and schema.fields:
            return schema
    except (ParseException, IllegalArgumentException) as error:
        problem = _first_line(error)
    raise OptionError(
        f"argument --schema: {quoted(ddl)} is not columns with types, as 'id long, body string': {problem}"
    )


def _first_line(error: PySparkException) -> str:
    return str(error).strip().partition("\n")[0]
