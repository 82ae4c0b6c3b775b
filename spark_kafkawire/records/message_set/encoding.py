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
import pyarrow as pa

from spark_kafkawire.errors import RowError
from spark_kafkawire.protocol.primitives import Buffer, Buffers

from .. import compiler
from ..arrays import Int64s, Uint8s
from ..checksum import crc32, crc32_each
from ..compression import Codec, Format, codec_named
from ..rows import cut_rows, value_spans
from . import kernels

#: ``length int32 | magic int8 | attributes int8 | crc uint32`` of a magic-1 message.
_HEADER: Final = struct.Struct(">ibbI")
#: Bytes that ``length`` counts besides the payload.
_LENGTH_OVER_PAYLOAD: Final = _HEADER.size - 4
_MAGIC: Final = 1
#: Largest payload whose length fits in the header.
_PAYLOAD_SIZE_MAX: Final = 2**31 - 1 - _LENGTH_OVER_PAYLOAD


@dataclass(frozen=True, slots=True)
class EncodedSet:
    """A message set and the number of values in it. ``data`` owns its memory."""

    data: Buffer
    count: int


def encode(values: pa.Array, compression: str = "none", level: int | None = None) -> Buffer:
    """Encode all values as one message set.

    ``values`` is a string or binary array (or a large one). The result owns its memory.
    Raises ``RowError`` for a null or too large value, ``OptionError`` for a wrong type,
    compression or level. All fatal.
    """
    rows = _Rows.of(values)
    rows.check_sizes(_PAYLOAD_SIZE_MAX)
    compiler.expect(rows.count)
    return _SetEncoder(codec_named(compression, Format.MESSAGE_SET), level, Buffers()).encode(rows)


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
    fits. The memory of a set is one of ``buffers``, and is reused when nothing refers to the set.

    Raises ``RowError`` naming the row that cannot fit alone; without compression before
    the first set, and otherwise as ``encode`` does. All fatal.
    """
    rows = _Rows.of(values)
    codec = codec_named(compression, Format.MESSAGE_SET)
    rows.check_sizes(_PAYLOAD_SIZE_MAX if codec else message_size_max)
    return _SetEncoder(codec, level, buffers or Buffers(), message_size_max).sets(rows, set_bytes_max)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Values ``data[offsets[i]:offsets[i + 1]]``; the first of them is row ``start`` of the caller's."""

    data: Uint8s
    offsets: Int64s
    start: int = 0

    @classmethod
    def of(cls, values: pa.Array) -> _Rows:
        data, offsets = value_spans(values, "a value")
        if values.null_count:
            row = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
            raise RowError(
                f"row {row}: value is null, and Kafka 0.7 has no null messages; drop or fill the row"
            )
        return cls(data, offsets)

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
                f"row {row}: value of {sizes[row]} bytes is larger than message_size_max={size_max}; shorten "
                "it, or raise message_size_max"
            )


@dataclass(frozen=True, slots=True)
class _SetEncoder:
    """Settings of encoding: codec (or None), level, buffers, and the broker's limit."""

    codec: Codec | None
    level: int | None
    buffers: Buffers
    message_size_max: int = _PAYLOAD_SIZE_MAX

    def sets(self, rows: _Rows, set_bytes_max: int) -> Iterator[EncodedSet]:
        """Sets of at most ``set_bytes_max`` bytes before compression, or one value."""
        compiler.expect(rows.count)
        for start, stop in cut_rows(np.diff(rows.offsets) + _HEADER.size, set_bytes_max):
            yield from self._fitting_sets(rows.slice(start, stop))

    def _fitting_sets(self, rows: _Rows) -> Iterator[EncodedSet]:
        """Encode all rows as one set, or their halves as sets if the set is compressed and too large."""
        data = self.encode(rows)
        size = len(data) - _HEADER.size
        if self.codec is None or size <= self.message_size_max:
            yield EncodedSet(data, rows.count)
            return
        if rows.count == 1:
            raise RowError(
                f"row {rows.start}: value of {rows.plain_size - _HEADER.size} bytes is {size} bytes "
                f"compressed, larger than message_size_max={self.message_size_max}; shorten it, or raise "
                "message_size_max"
            )
        del data
        middle = rows.count // 2
        yield from self._fitting_sets(rows.slice(0, middle))
        yield from self._fitting_sets(rows.slice(middle, rows.count))

    def encode(self, rows: _Rows) -> Buffer:
        crcs = crc32_each(rows.data, rows.offsets)
        plain = self.buffers.take(rows.plain_size)
        kernels.write_messages(rows.data, rows.offsets, crcs, np.frombuffer(plain, np.uint8))
        if self.codec is None or not rows.count:
            return plain
        payload = self.codec.compress(plain, self.level)
        header = _HEADER.pack(len(payload) + _LENGTH_OVER_PAYLOAD, _MAGIC, self.codec.number, crc32(payload))
        return b"".join((header, payload))
