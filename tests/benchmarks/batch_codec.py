"""The codec of record batches (magic 2) without Spark, against what memory and CRC-32C allow."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from time import process_time
from typing import Final

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from spark_kafkawire.options import FetchOptions
from spark_kafkawire.records import compiler
from spark_kafkawire.records.log_index import index_batches
from spark_kafkawire.records.record_log import decode_batches, encode_batches
from spark_kafkawire.records.rows import Records

from .codec import details, value_bytes
from .measure import Figure, interleaved, say
from .modern_logs import BATCH_BYTES_MAX
from .values import VALUE_SIZES, values

COMPRESSIONS: Final = ("none", "lz4", "zstd", "snappy", "gzip")
#: Bytes of records in one call.
_CALL_SIZE: Final = FetchOptions().fetch_bytes
#: About what a record takes beside its value, bytes.
_RECORD_OVERHEAD: Final = 8
#: Calls in one run, so that a run takes long enough for the clock.
_CALLS: Final = 10
#: Columns that are decoded: what a copy and a checksum of the values are a limit for.
_WANTED: Final = ("offset", "value")
_NOW_MS: Final = 1_750_000_000_000
_OFFSET_BYTES: Final = 8
_DECODE_TARGETS: Final = {(100, "none"): 5.0, (1024, "none"): 2.5}
_ENCODE_TARGETS: Final = {(100, "none"): 30.0}


def batch_codec(rounds: int) -> Iterator[Figure]:
    """Decoding and encoding, all value sizes and compressions."""
    compiler.load()
    for value_size in VALUE_SIZES:
        say(f"batch codec: values of {value_size} bytes")
        column = values(value_size, _CALL_SIZE // (value_size + _RECORD_OVERHEAD))
        for compression in COMPRESSIONS:
            yield _decode(column, value_size, compression, rounds)
        for compression in COMPRESSIONS:
            yield _encode(column, value_size, compression, rounds)


def _decode(column: pa.BinaryArray, value_size: int, compression: str, rounds: int) -> Figure:
    """Time over the limit: one copy of the values and one CRC-32C of them."""
    data = b"".join(_batches(column, compression))
    payload = np.frombuffer(column.buffers()[2], np.uint8)[: value_bytes(column)]
    target = np.empty_like(payload)

    def ours() -> None:
        for _ in range(_CALLS):
            for _ in decode_batches(index_batches(data), wanted=_WANTED):
                pass

    def limit() -> None:
        for _ in range(_CALLS):
            np.copyto(target, payload)
            crc32c(payload.data)

    seconds = interleaved({"ours": ours, "limit": limit}, rounds, process_time)
    return Figure(
        "codec decode magic 2",
        "times_the_limit",
        median(seconds["ours"]) / median(seconds["limit"]),
        _DECODE_TARGETS.get((value_size, compression)),
        at_most=True,
        details=details(column, value_size, compression, seconds["ours"], _CALLS),
    )


def _encode(column: pa.BinaryArray, value_size: int, compression: str, rounds: int) -> Figure:
    """Rows per second over an encoder as one would first write it."""

    def ours() -> None:
        for _ in range(_CALLS):
            for _ in _batches(column, compression):
                pass

    def plain() -> None:
        _straightforward(column)

    seconds = interleaved({"ours": ours, "plain": plain}, rounds, process_time)
    plain_s = _CALLS * median(seconds["plain"])
    return Figure(
        "codec encode magic 2",
        "times_straightforward",
        plain_s / median(seconds["ours"]),
        _ENCODE_TARGETS.get((value_size, compression)),
        details=details(column, value_size, compression, seconds["ours"], _CALLS),
    )


def _batches(column: pa.BinaryArray, compression: str) -> Iterator[bytes | bytearray | memoryview]:
    batches = encode_batches(
        Records(column),
        compression=compression,
        batch_bytes_max=BATCH_BYTES_MAX,
        request_bytes_max=BATCH_BYTES_MAX,
        now_ms=_NOW_MS,
    )
    offset = 0
    for batch in batches:
        # As a broker does, which no reader takes an offset from twice.
        batch.data[:_OFFSET_BYTES] = offset.to_bytes(_OFFSET_BYTES, "big")
        yield batch.with_producer()
        offset += batch.count


def _straightforward(column: pa.BinaryArray) -> bytes:
    """The records of one batch, uncompressed, with its checksum."""
    parts: list[bytes] = []
    for row, value in enumerate(column.to_pylist()):
        body = b"".join((b"\0\0", _varint(row), b"\1", _varint(len(value)), value, b"\0"))
        parts += (_varint(len(body)), body)
    records = b"".join(parts)
    return crc32c(records).to_bytes(4, "big") + records


def _varint(value: int) -> bytes:
    rest, out = value << 1, bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
