"""Differences between the pysparks that this package runs on, 4.0 to 4.3.

Each difference asks pyspark for the feature and never for its version: platforms carry features back to
older versions, as Databricks does with the limits of streams, and servers of other makers report versions of
their own.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql import datasource, functions
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_schema
from pyspark.sql.types import DataType, StructType

from ..errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

#: Spark passes ``latestOffset`` the start of the batch and the trigger's limit (open source: from 4.2 on).
HAS_READ_LIMITS: Final = hasattr(datasource.DataSourceStreamReader, "getDefaultReadLimit")
#: Spark hands the rows of a micro-batch to a sink as Arrow batches (open source: from 4.1 on).
HAS_STREAM_SINKS: Final = hasattr(datasource, "DataSourceStreamArrowWriter")


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema with timestamps in UTC, with which Spark compares the first batch's, field by field.

    Newer pysparks ask for the time zone (open source: from 4.2 on). Older ones take UTC.
    """
    asks_for_zone = "timezone" in inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if asks_for_zone else to_arrow_schema(schema)


def spark_type(arrow_type: pa.DataType) -> DataType:
    """The type in Spark's types. pyspark 4.0 makes timestamps without a time zone those of the session's
    unless asked."""
    return from_arrow_type(arrow_type, prefer_timestamp_ntz=True)


def struct_type(schema: StructType | pa.Schema) -> StructType:
    """The schema in Spark's types. Sail hands over a schema of Arrow."""
    return schema if isinstance(schema, StructType) else from_arrow_schema(schema, prefer_timestamp_ntz=True)


def register(spark: SparkSession, source: type[datasource.DataSource]) -> None:
    """Register the source with a session, also where Spark has found it by itself: 4.0 refuses it there."""
    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def arrow_udf(
    function: Callable[[pa.Array], pa.Array], returns: DataType
) -> Callable[[Column | str], Column]:
    """A function of a column that works on Arrow arrays. Raises ``OptionError`` (fatal) where pyspark has no
    such functions (open source: before 4.1)."""
    make = getattr(functions, "arrow_udf", None)
    if make is None:
        raise OptionError(
            f"functions of columns need Spark 4.1 or later (arrow_udf of pyspark), and this is "
            f"{pyspark.__version__}; read or write with the option valueFormat instead"
        )
    import pyarrow as pa

    def call(values: pa.Array) -> pa.Array:
        return function(values)

    # pyspark looks at the types themselves, and the annotations of this module are text.
    call.__annotations__ = {"values": pa.Array, "return": pa.Array}
    made: Callable[[Column | str], Column] = make(call, returns)
    return made


def json_texts(texts: DataFrame) -> Any:
    """The argument of ``spark.read.json`` for the one column of texts: the frame itself where pyspark takes
    one (open source: from 4.2 on), else an RDD."""
    parameter = inspect.signature(type(texts.sparkSession.read).json).parameters["path"]
    return texts if "DataFrame" in str(parameter.annotation) else texts.rdd.map(itemgetter(0))


def offsets_of_progress(text: str | None) -> Any:
    """The offsets in the progress of a query. Raises ``ValueError`` for text that holds none.

    Clients of Spark Connect before 4.2 get them as Python writes a dictionary.
    """
    if not (text or "").startswith("{'"):
        return json.loads(text or "null")
    try:
        return ast.literal_eval(text or "")
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError from error


def check_stream_sinks() -> None:
    """Raise ``OptionError`` (fatal) where Spark hands rows to a sink one by one."""
    if not HAS_STREAM_SINKS:
        raise OptionError(
            "writeStream needs Spark 4.1 or later (DataSourceStreamArrowWriter of pyspark), and this is "
            f'{pyspark.__version__}: use foreachBatch, and df.write.format("kafkawire") in it'
        )


def check_numbers_tasks(schema: StructType | pa.Schema) -> None:
    """Raise ``OptionError`` (fatal) where tasks have no numbers of their own, which name transactions.

    Sail, which hands over a schema of Arrow, has no ``TaskContext``: all tasks of a write would share one
    transactional id and fence each other.
    """
    if not isinstance(schema, StructType):
        raise OptionError(
            "delivery=exactly-once needs tasks with numbers of their own (TaskContext of pyspark), which "
            "this engine does not give: leave the option out, or run the write on Apache Spark"
        )
