"""The sink without a JVM: a writer as Spark's driver makes it, and the tasks of a batch."""

from __future__ import annotations

import pickle
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.source.spark_versions import HAS_STREAM_SINKS

if HAS_STREAM_SINKS:
    from spark_kafkawire.source.stream_writer import KafkaWireStreamWriter

VALUE: Final = StructType([StructField("value", StringType())])


def writer(schema: StructType = VALUE, complete: bool = False, /, **options: str) -> KafkaWireStreamWriter:
    """Writer of Spark for a stream with these options, whose names have ``__`` for dots."""
    raw = {name.replace("__", "."): value for name, value in options.items()}
    made = KafkaWireDataSource(raw).streamWriter(schema, complete)
    assert isinstance(made, KafkaWireStreamWriter)
    return made


def task(planned: KafkaWireStreamWriter, *values: str) -> Any:
    """One task of a batch, in a process of its own but for that."""
    return pickle.loads(pickle.dumps(planned)).write(
        iter([pa.RecordBatch.from_pydict({"value": pa.array(values)})])
    )
