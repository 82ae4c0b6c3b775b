"""The codec without Spark, against what the memory and the best CRC-32 allow."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from statistics import median
from time import process_time
from typing import Final

import numpy as np
import pyarrow as pa
from isal import isal_zlib

from spark_kafkawire.options import FetchOptions
from spark_kafkawire.records import compiler
from spark_kafkawire.records.message_set.decoding import decode
from spark_kafkawire.records.message_set.encoding import encode, encode_sets

from .logs import SET_BYTES_MAX
from .measure import Figure, interleaved, say, throughput
from .values import VALUE_SIZES, values

COMPRESSIONS: Final = ("none", "snappy", "gzip")
#: Bytes of plain messages in one call.
_CALL_SIZE: Final = FetchOptions().fetch_bytes
#: Calls in one run, so that a run takes long enough for the clock.
_CALLS: Final = 10
_HEADER: Final = struct.Struct(">ibbI")
_DECODE_TARGETS: Final = {(100, "none"): 6.0, (1024, "none"): 2.5}
_ENCODE_TARGETS: Final = {(100, "none"): 5.0}


def codec(rounds: int) -> Iterator[Figure]:
    """Decoding and encoding, all value sizes and compressions."""
    compiler.load()
    for value_size in VALUE_SIZES:
        say(f"codec: values of {value_size} bytes")
        column = values(value_size, _CALL_SIZE // (value_size + _HEADER.size))
        for compression in COMPRESSIONS:
            yield _decode(column, value_size, compression, rounds)
        for compression in COMPRESSIONS:
            yield _encode(column, value_size, compression, rounds)


def _decode(column: pa.BinaryArray, value_size: int, compression: str, rounds: int) -> Figure:
    """Time over the limit: one copy of the values and one CRC-32 of them."""
    message_sets = encode_sets(
        column, compression=compression, set_bytes_max=SET_BYTES_MAX, message_size_max=SET_BYTES_MAX
    )
    data = b"".join(each.data for each in message_sets)
    payload = np.frombuffer(column.buffers()[2], np.uint8)[: value_bytes(column)]
    target = np.empty_like(payload)

    def ours() -> None:
        for _ in range(_CALLS):
            decode(data, 0)

    def limit() -> None:
        for _ in range(_CALLS):
            np.copyto(target, payload)
            isal_zlib.crc32(payload)

    seconds = interleaved({"ours": ours, "limit": limit}, rounds, process_time)
    return Figure(
        "codec decode",
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
            encode(column, compression)

    def plain() -> None:
        _straightforward(column)

    seconds = interleaved({"ours": ours, "plain": plain}, rounds, process_time)
    plain_s = _CALLS * median(seconds["plain"])
    return Figure(
        "codec encode",
        "times_straightforward",
        plain_s / median(seconds["ours"]),
        _ENCODE_TARGETS.get((value_size, compression)),
        details=details(column, value_size, compression, seconds["ours"], _CALLS),
    )


def _straightforward(column: pa.BinaryArray) -> bytes:
    """The message set of the values by ``struct`` and ``join``, uncompressed."""
    parts: list[bytes] = []
    for value in column.to_pylist():
        parts += (_HEADER.pack(len(value) + 6, 1, 0, zlib.crc32(value)), value)
    return b"".join(parts)


def details(
    column: pa.BinaryArray, value_size: int, compression: str, seconds: list[float], calls: int
) -> dict[str, object]:
    """Fields of a result line for runs that moved the column ``calls`` times."""
    moved = throughput(seconds, rows=calls * len(column), size=calls * value_bytes(column))
    return {"value_size": value_size, "compression": compression, **moved}


def value_bytes(column: pa.BinaryArray) -> int:
    """Bytes of all values."""
    return int(np.frombuffer(column.buffers()[1], np.int32)[len(column)])
