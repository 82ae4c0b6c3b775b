"""Record batches and messages that kafka-python makes and reads: it shares no code with what it judges."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from spark_kafkawire.protocol.primitives import Buffer
from spark_kafkawire.records.columns import HEADERS, Columns
from spark_kafkawire.records.rows import Records
from tests.support.codecs import (
    CODEC_NUMBERS,
    arrow_decode,
    arrow_encode,
    judged_by_kafka_python,
)

with warnings.catch_warnings():
    # kafka-python reads its files in a way that Python 3.11 calls old.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import codec
    from kafka.record import MemoryRecords, default_records, legacy_records
    from kafka.record.default_records import DefaultRecordBatchBuilder


# kafka-python takes zstd from a package that is not among ours, so that Arrow's takes its place.
codec.zstd = pa
default_records.zstd_encode = partial(arrow_encode, "zstd")
default_records.zstd_decode = partial(arrow_decode, "zstd")

#: The compressions of magic 2 that kafka-python knows, and so judges.
JUDGED = judged_by_kafka_python(2)
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A record, and its offset where it has one."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of magic 2 that kafka-python encodes; offsets of the records are relative to its base."""

    records: tuple[Record, ...]
    base_offset: int = 0
    compression: str = "none"
    producer: tuple[int, int, int] = (-1, -1, -1)
    is_transactional: bool = False
    last_delta: int | None = field(default=None)

    def encoded(self) -> bytes:
        producer_id, epoch, sequence = self.producer
        builder = DefaultRecordBatchBuilder(
            2, CODEC_NUMBERS[self.compression], self.is_transactional, producer_id, epoch, sequence, 1 << 30
        )
        for record in self.records:
            headers = list(record.headers)
            builder.append(record.offset, record.timestamp_ms, record.key, record.value, headers)
        data = bytearray(builder.build())
        data[:8] = self.base_offset.to_bytes(8, "big")
        return bytes(data)


@dataclass(frozen=True, slots=True)
class MessageSet:
    """Messages of magic 0 or 1 that kafka-python encodes; in one message where they are compressed."""

    records: tuple[Record, ...]
    magic: int = 1
    base_offset: int = 0
    compression: str = "none"
    append_time_ms: int | None = None

    def encoded(self) -> bytes:
        number = CODEC_NUMBERS[self.compression]
        builder = legacy_records.LegacyRecordBatchBuilder(self.magic, number, 1 << 30)
        is_relative = number and self.magic
        for record in self.records:
            offset = record.offset + (0 if is_relative else self.base_offset)
            builder.append(offset, record.timestamp_ms if self.magic else None, record.key, record.value, [])
        data = bytearray(builder.build())
        if number:
            data[:8] = (self.base_offset + self.records[-1].offset).to_bytes(8, "big")
        if self.append_time_ms is not None:
            data[17] |= 8
            data[18:26] = self.append_time_ms.to_bytes(8, "big")
            data[12:16] = zlib.crc32(data[16:]).to_bytes(4, "big")
        return bytes(data)


def arrow_records(records: Sequence[Record]) -> Records:
    """The rows as the encoder takes them."""
    return Records(
        pa.array([record.value for record in records], pa.binary()),
        pa.array([record.key for record in records], pa.binary()),
        pa.array(
            [[{"key": k, "value": v} for k, v in record.headers] or None for record in records], HEADERS
        ),
        pa.array([record.timestamp_ms for record in records], pa.int64()),
    )


def judged(data: Buffer) -> list[Record]:
    """Records that kafka-python reads, after it checked the CRCs."""
    result: list[Record] = []
    for batch in MemoryRecords(bytes(data)):
        assert batch.validate_crc()
        result += [
            Record(
                item.value,
                item.key,
                tuple(item.headers or ()),
                item.timestamp if item.timestamp is not None else -1,
                item.offset,
            )
            for item in batch
        ]
    return result


def column_records(columns: Columns) -> list[Record]:
    """The rows of ``Columns``."""
    count = columns.count
    headers: Any = [None] * count if columns.headers is None else columns.headers.to_pylist()
    return [
        Record(value, key, tuple((pair["key"], pair["value"]) for pair in pairs or ()), timestamp, offset)
        for value, key, pairs, timestamp, offset in zip(
            [None] * count if columns.values is None else columns.values.to_pylist(),
            [None] * count if columns.keys is None else columns.keys.to_pylist(),
            headers,
            [-1] * count if columns.timestamps_ms is None else columns.timestamps_ms.tolist(),
            columns.offset.tolist(),
            strict=True,
        )
    ]
