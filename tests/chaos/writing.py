"""A write through a proxy to a modern broker, and whether its log has what the write promised.

librdkafka, and not the package, reads the log, without the proxy between.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    StructField,
    StructType,
    TimestampType,
)

from spark_kafkawire import KafkaWireDataSource
from spark_kafkawire.source.schema import HEADERS_FIELD
from spark_kafkawire.source.spark_versions import arrow_schema
from tests.support import kafka_python, librdkafka
from tests.support.foreign import CODECS

from .reading import Options, persistence
from .truth import Found, Promise

PARTITION_COUNT: Final = 3
QUICK: Final = {
    "requestTimeout": "1s",
    "retryBackoff": "5ms",
    "kafka.delivery.timeout.ms": "3000",
    "kafka.max.block.ms": "2000",
}
#: The header that says whose a row is, operation and number, and whether it has a time of its own.
_NAME: Final = "chaos"
_BATCH_BYTES: Final = ("200", "1000", "5000", "20000", "1MiB")
_MURMUR2_MASK: Final = 0x7FFFFFFF
_FIRST_MS: Final = 1_750_000_000_000

#: The types of columns of all writes.
_TYPES: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "headers": HEADERS_FIELD.dataType,
    "timestamp": TimestampType(),
    "partition": IntegerType(),
    "broker": IntegerType(),
}


def _schema(names: Iterable[str]) -> StructType:
    return StructType([StructField(name, _TYPES[name]) for name in names])


class Content(NamedTuple):
    """Parts of a row that are compared."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class Drawn:
    """The options of a write, its rows in batches, and what it promises where it succeeds and fails."""

    options: Options
    batches: list[pa.RecordBatch]
    rows: list[Any]
    logs: list[str | None]
    success: Promise
    error: Promise = Promise.AT_MOST_ONCE


def draw(chance: random.Random, topic: str, operation: int, finding: Options) -> Drawn:
    """A write to a topic of ``PARTITION_COUNT`` partitions; its broker is found by the last options."""
    partitioner = chance.choice(("murmur2", "consistent", "consistent_random", "roundrobin", "sticky"))
    options = {
        **QUICK,
        **finding,
        "topic": topic,
        "compression": chance.choice(CODECS),
        "partitioner": partitioner,
        "batchBytes": chance.choice(_BATCH_BYTES),
        "kafka.max.in.flight.requests.per.connection": str(chance.choice((1, 2, 5))),
        **persistence(chance),
    }
    how = chance.choice(("idempotent", "idempotent", "idempotent", "all", "1", "0"))
    if how == "all":
        options["kafka.enable.idempotence"] = "false"
    elif how != "idempotent":
        options["acks"] = how
    has_times = chance.random() < 0.6
    rows = [
        _content(chance, operation, number, has_times) for number in range(chance.choice((1, 5, 60, 200)))
    ]
    named = chance.random() < 0.3
    partitions = [chance.choice((None, 0, 1, 2)) if named else None for _ in rows]
    logs = [_log(row.key, partition, partitioner) for row, partition in zip(rows, partitions, strict=True)]
    columns: dict[str, Sequence[Any]] = {
        "key": [row.key for row in rows],
        "value": [row.value for row in rows],
        "headers": [[{"key": key, "value": value} for key, value in row.headers] for row in rows],
        "timestamp": [None if row.timestamp_ms is None else row.timestamp_ms * 1000 for row in rows],
        "partition": partitions,
    }
    return Drawn(options, batches_of(chance, columns), rows, logs, *_PROMISES[how])


def batches_of(chance: random.Random, columns: Mapping[str, Sequence[Any]]) -> list[pa.RecordBatch]:
    """The columns of a write in batches of a drawn size."""
    size: int = chance.choice((7, 50, 1000))
    return list(pa.table(dict(columns), schema=arrow_schema(_schema(columns))).to_batches(size))


_PROMISES: Final = {
    "idempotent": (Promise.ONCE, Promise.AT_MOST_ONCE),
    "all": (Promise.AT_LEAST_ONCE, Promise.ANY),
    "1": (Promise.AT_LEAST_ONCE, Promise.ANY),
    "0": (Promise.ANY, Promise.ANY),
}


def _content(chance: random.Random, operation: int, number: int, has_times: bool) -> Content:
    name = b"%d %d %d" % (operation, number, has_times)
    headers: list[tuple[str, bytes | None]] = [(_NAME, name)]
    if chance.random() < 0.2:
        headers.append(("more", chance.choice((None, b"", b"x"))))
    return Content(
        None if chance.random() < 0.3 else b"key %d" % chance.randrange(20),
        None if chance.random() < 0.05 else chance.randbytes(chance.choice((0, 3, 40, 300)) // 2) * 2,
        tuple(headers),
        _FIRST_MS + chance.randrange(10**9) if has_times else None,
    )


def _log(key: bytes | None, partition: int | None, partitioner: str) -> str | None:
    """Partition that a row must be in, by what other clients say of the partitioners; None for any."""
    if partition is not None:
        return str(partition)
    if partitioner == "murmur2" and key is not None:
        return str((kafka_python.murmur2(key) & _MURMUR2_MASK) % PARTITION_COUNT)
    if partitioner == "consistent" or (partitioner == "consistent_random" and key):
        return str(zlib.crc32(key or b"") % PARTITION_COUNT)
    return None


def write(options: Options, batches: Sequence[pa.RecordBatch]) -> int:
    """Write as one task does, and commit; how many rows the receipts tell."""
    writer: Any = KafkaWireDataSource(options).writer(_schema(batches[0].schema.names), False)
    message = writer.write(iter(batches))
    writer.commit([message])
    return sum(receipt.message_count for receipt in message.receipts)


class LogReader:
    """Reads on in the logs of a topic where it ended the last time."""

    def __init__(self, servers: str, topic: str) -> None:
        self._servers, self._topic = servers, topic
        self._next = dict.fromkeys(range(PARTITION_COUNT), 0)

    def found(self) -> Iterator[Found]:
        """Rows that have arrived since the last call."""
        for partition, start in self._next.items():
            for row in librdkafka.consume(self._servers, self._topic, partition, start_offset=start):
                self._next[partition] = row.offset + 1
                operation, number, has_time = map(int, (dict(row.headers).get(_NAME) or b"-1 -1 1").split())
                # A row without a time of its own has that of the write, which is not compared.
                stamp = row.timestamp_ms if has_time else None
                content = Content(row.key, row.value, row.headers, stamp)
                yield Found(str(partition), operation, number, content)
