"""Message sets of Kafka 0.7 made of Arrow values, byte for byte as the JVM makes them.

Uncompressed, each value is one magic-1 message. Compressed, the uncompressed set is the payload
of one message whose attributes name the codec; no values make an empty set, not a wrapper.
Source: recordings of the 0.7.2 classes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...errors import OptionError, RowError
from ...protocol.buffers import Buffers
from ...protocol.primitives import Buffer
from .. import compiler
from ..checksum import crc32, crc32_each
from ..columns import Int64s, Uint8s, check_spans
from ..compression.gzip import Codec, codec_named
from . import kernels
from .index import byte_array

#: ``length int32 | magic int8 | attributes int8 | crc uint32`` of a magic-1 message.
_HEADER: Final = struct.Struct(">ibbI")
#: What ``length`` counts beside the payload.
_LENGTH_OVER_PAYLOAD: Final = _HEADER.size - 4
_MAGIC: Final = 1
#: Largest payload whose length fits in the header.
_PAYLOAD_SIZE_MAX: Final = 2**31 - 1 - _LENGTH_OVER_PAYLOAD


@dataclass(frozen=True, slots=True)
class EncodedSet:
    """One message set and the number of values in it. ``data`` owns its memory."""

    data: Buffer
    count: int


def encode(values: pa.Array, compression: str = "none", level: int | None = None) -> Buffer:
    """One message set of all values.

    ``values`` is a string or binary array (or a large one). The result owns its memory.
    Raises ``RowError`` for a null or too large value, ``OptionError`` for a wrong type,
    compression or level. All fatal.
    """
    rows = _Rows.of(values)
    rows.check_sizes(_PAYLOAD_SIZE_MAX)
    compiler.expect(rows.count)
    return _Encoder(codec_named(compression), level, Buffers()).encode(rows)


def encode_sets(
    values: pa.Array,
    *,
    compression: str = "none",
    level: int | None = None,
    set_bytes_max: int,
    message_size_max: int,
    buffers: Buffers | None = None,
) -> Iterator[EncodedSet]:
    """Message sets of all values, in order.

    A set has at most ``set_bytes_max`` bytes before compression, or one value. No outermost
    payload is larger than ``message_size_max``: a compressed set that is gets halved until it
    fits. The memory of a set is one of ``buffers``, used again once nobody looks at the set.

    Raises ``RowError`` naming the row that cannot fit alone; without compression before
    the first set, and otherwise as ``encode`` does. All fatal.
    """
    rows = _Rows.of(values)
    codec = codec_named(compression)
    rows.check_sizes(_PAYLOAD_SIZE_MAX if codec else message_size_max)
    return _Encoder(codec, level, buffers or Buffers(), message_size_max).encode_sets(rows, set_bytes_max)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Values ``data[offsets[i]:offsets[i + 1]]``; the first of them is row ``start`` of the caller's."""

    data: Uint8s
    offsets: Int64s
    start: int = 0

    @classmethod
    def of(cls, values: pa.Array) -> _Rows:
        offset_type = _offset_type(values.type)
        if values.null_count:
            row = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
            raise RowError(f"row {row}: value is null, and Kafka 0.7 has no null messages")
        if not len(values):
            return cls(byte_array(b""), np.zeros(1, np.int64))
        _, offsets, data = values.buffers()
        window = slice(values.offset, values.offset + len(values) + 1)
        rows = cls(
            byte_array(data) if data else byte_array(b""),
            np.frombuffer(offsets, offset_type)[window].astype(np.int64),
        )
        check_spans(rows.offsets, len(rows.data))
        return rows

    @property
    def count(self) -> int:
        return len(self.offsets) - 1

    @property
    def plain_size(self) -> int:
        """Size of the uncompressed set."""
        return int(self.offsets[-1] - self.offsets[0]) + _HEADER.size * self.count

    def slice(self, start: int, stop: int) -> _Rows:
        return _Rows(self.data, self.offsets[start : stop + 1], self.start + start)

    def check_sizes(self, size_max: int) -> None:
        sizes = np.diff(self.offsets)
        if self.count and sizes.max() > size_max:
            row = int(np.argmax(sizes > size_max))
            raise RowError(
                f"row {row}: value of {sizes[row]} bytes is larger than max.message.size {size_max}"
            )

    def batches(self, set_bytes_max: int) -> Iterator[_Rows]:
        """Consecutive rows whose uncompressed sets have at most that size, or one row."""
        stops = self.offsets[1:] - self.offsets[0] + _HEADER.size * np.arange(1, self.count + 1)
        start, done = 0, 0
        while start < self.count:
            stop = max(int(np.searchsorted(stops, done + set_bytes_max, "right")), start + 1)
            yield self.slice(start, stop)
            start, done = stop, int(stops[stop - 1])


@dataclass(frozen=True, slots=True)
class _Encoder:
    """How sets are made: one codec (or none), its level, where to, the broker's limit."""

    codec: Codec | None
    level: int | None
    buffers: Buffers
    message_size_max: int = _PAYLOAD_SIZE_MAX

    def encode_sets(self, rows: _Rows, set_bytes_max: int) -> Iterator[EncodedSet]:
        compiler.expect(rows.count)
        for batch in rows.batches(set_bytes_max):
            waiting = [batch]
            while waiting:
                batch = waiting.pop()
                data = self.encode(batch)
                if self.codec is None or len(data) - _HEADER.size <= self.message_size_max:
                    yield EncodedSet(data, batch.count)
                else:
                    waiting += self._halves(batch, len(data) - _HEADER.size)

    def _halves(self, rows: _Rows, size: int) -> tuple[_Rows, _Rows]:
        """Both halves, the second one first."""
        if rows.count == 1:
            raise RowError(
                f"row {rows.start}: value of {rows.plain_size - _HEADER.size} bytes is {size} bytes"
                f" compressed, larger than max.message.size {self.message_size_max}"
            )
        middle = rows.count // 2
        return rows.slice(middle, rows.count), rows.slice(0, middle)

    def encode(self, rows: _Rows) -> Buffer:
        """One message set."""
        crcs = crc32_each(rows.data, rows.offsets)
        plain = self.buffers.take(rows.plain_size)
        kernels.write_messages(rows.data, rows.offsets, crcs, np.frombuffer(plain, np.uint8))
        if self.codec is None or not rows.count:
            return plain
        payload = self.codec.compress(plain, self.level)
        header = _HEADER.pack(len(payload) + _LENGTH_OVER_PAYLOAD, _MAGIC, self.codec.number, crc32(payload))
        return b"".join((header, payload))


def _offset_type(value_type: pa.DataType) -> npt.DTypeLike:
    if pa.types.is_binary(value_type) or pa.types.is_string(value_type):
        return np.int32
    if pa.types.is_large_binary(value_type) or pa.types.is_large_string(value_type):
        return np.int64
    raise OptionError(f"a value is a string or binary, not {value_type}")
