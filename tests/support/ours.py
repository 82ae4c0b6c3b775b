"""This package as a client beside the others: a whole write and a whole read, without a JVM.

Options have ``__`` in place of dots.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType, TimestampType

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.source.schema import HEADERS_FIELD

from . import reading
from .foreign import Record

_ROWS = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        HEADERS_FIELD,
        StructField("timestamp", TimestampType()),
        StructField("partition", IntegerType()),
    ]
)
_COLUMNS = (
    pa.binary(),
    pa.binary(),
    pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    pa.timestamp("us", tz="UTC"),
    pa.int32(),
)


def produce(
    bootstrap_servers: str, topic: str, records: Iterable[Record], compression: str = "none", **options: str
) -> None:
    """Write records as a task does, and commit them."""
    given = {
        "kafka.bootstrap.servers": bootstrap_servers,
        "topic": topic,
        "compression": compression,
        **{name.replace("__", "."): value for name, value in options.items()},
    }
    writer: Any = KafkaWireDataSource(given).writer(_ROWS, False)
    rows = [
        (
            record.key,
            record.value,
            [{"key": key, "value": value} for key, value in record.headers] or None,
            None if record.timestamp_ms is None else record.timestamp_ms * 1000,
            record.partition,
        )
        for record in records
    ]
    arrays = [pa.array([row[index] for row in rows], kind) for index, kind in enumerate(_COLUMNS)]
    batch = pa.record_batch(arrays, names=_ROWS.fieldNames())
    writer.commit([writer.write(iter([batch]))])


def consume(
    bootstrap_servers: str,
    topic: str,
    partition: int = 0,
    *,
    isolation_level: str = "read_uncommitted",
    **options: str,
) -> list[Record]:
    """All records of a partition."""
    rows = reading.read(
        bootstrap_servers,
        assign=f'{{"{topic}":[{partition}]}}',
        includeHeaders="true",
        kafka__isolation__level=isolation_level,
        **options,
    )
    return [_record(row) for row in rows]


def _record(row: dict[str, Any]) -> Record:
    stamp = row["timestamp"]
    return Record(
        value=row["value"],
        key=row["key"],
        headers=tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        timestamp_ms=None if stamp is None else round(stamp.timestamp() * 1000),
        partition=row["partition"],
        offset=row["offset"],
        timestamp_type=row["timestampType"],
    )
