"""What differs between the versions of Spark that this package runs on, 4.0 to 4.3.

Each difference names the version that ends it: what is asked here goes when that is the oldest one.
"""

from __future__ import annotations

import ast
import json
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ..errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource

VERSION: Final = tuple(int(number) for number in pyspark.__version__.split(".")[:2])
#: Spark 4.2 tells a stream where its next batch starts, and what the trigger asks for.
HAS_READ_LIMITS: Final = VERSION >= (4, 2)
#: Spark 4.1 hands the rows of a micro-batch to a sink as Arrow batches.
HAS_STREAM_SINKS: Final = VERSION >= (4, 1)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema with timestamps in UTC, with which Spark compares the first batch's, field by field.

    Spark 4.2 asks for the time zone, in whose place those before it have UTC.
    """
    return to_arrow_schema(schema, timezone="UTC") if VERSION >= (4, 2) else to_arrow_schema(schema)


def register(spark: SparkSession, source: type[DataSource]) -> None:
    """Let a session know the source, also where Spark has found it by itself: there Spark 4.0 refuses it."""
    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        if VERSION >= (4, 1) or error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


def json_texts(texts: DataFrame) -> Any:
    """What ``spark.read.json`` takes for the one column: from Spark 4.2 on the frame itself."""
    return texts if VERSION >= (4, 2) else texts.rdd.map(itemgetter(0))


def offsets_of_progress(text: str | None) -> Any:
    """The offsets in the progress of a query. Raises ``ValueError`` for what is none.

    Before Spark 4.2 a client of Spark Connect has them as Python writes a dictionary.
    """
    if VERSION >= (4, 2) or not (text or "").startswith("{'"):
        return json.loads(text or "null")
    try:
        return ast.literal_eval(text or "")
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError from error


def check_stream_sinks() -> None:
    """Raise ``OptionError`` (fatal) where Spark hands rows to a sink one by one."""
    if not HAS_STREAM_SINKS:
        raise OptionError(
            f"writeStream needs Spark 4.1 or later, and this is {pyspark.__version__}: use foreachBatch, and "
            'df.write.format("kafkawire") in it'
        )
