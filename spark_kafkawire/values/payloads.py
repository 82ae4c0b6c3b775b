"""Messages of a binary column as places in one buffer, the faults of those that cannot be decoded, and the
result of a decoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..records.arrays import Int32s, Int64s, Uint8s, byte_array


class Fault(IntEnum):
    """The reason why a message has no value; ``NONE`` for a message that has one.

    ``reason`` is a clause that an error or ``_corrupt_record.reason`` shows.
    """

    reason: str

    def __new__(cls, number: int, reason: str = "") -> Fault:
        fault = int.__new__(cls, number)
        fault._value_, fault.reason = number, reason
        return fault

    NONE = 0
    TRUNCATED = 1, "the message ends before the value does"
    TRAILING_BYTES = 2, "bytes follow the value"
    BAD_LENGTH = 3, "a length or a count is negative or larger than the message"
    BAD_VARINT = 4, "a variable-length integer is longer than its type"
    BAD_UNION_BRANCH = 5, "a union has no branch of this index, or the reader's type has no such branch"
    BAD_ENUM_INDEX = 6, "an enum has no symbol of this index, or the reader's enum has no such symbol"
    BAD_BOOLEAN = 7, "a boolean is neither 0 nor 1"
    BAD_UTF8 = 8, "a string is not UTF-8"
    TOO_DEEP = 9, "the value is nested more deeply than the limit"
    TOO_LARGE = 10, "the value takes more memory than the limit"
    NOT_REPRESENTABLE = 11, "a date, time or number is outside of the range of its column's type"
    MISSING_FIELD = 12, "a required field is missing"
    WRONG_TYPE = 13, "a field has another type than its column"
    BAD_JSON = 14, "the message is not valid JSON"
    BAD_WIRE_TYPE = 15, "a field has a wire type or a number that no field has"
    NO_FRAME = 16, "the message does not begin with a schema id"
    UNKNOWN_SCHEMA_ID = 17, "the registry has no schema of this id"
    UNRESOLVABLE_SCHEMA = 18, "the message's schema cannot be resolved to the reader's schema"
    BAD_MESSAGE_INDEX = 19, "the schema has no message type of this index"
    BAD_COMPRESSION = 20, "the compressed message cannot be decompressed"


@dataclass(frozen=True, slots=True)
class Decoded:
    """A column of decoded messages, and the faults of those that have no value.

    ``column`` has the reader's type; it is null in rows of tombstones and of faults. ``faults`` has
    a ``Fault`` for each row. ``fields`` has, for each row with a fault, the index in ``paths`` of the
    dotted path of the field that the fault is in; -1 where no field is known.
    """

    column: pa.Array
    faults: Uint8s
    fields: Int32s
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Payloads:
    """Places of messages in one buffer.

    ``data`` is the buffer, read-only and not copied. ``starts`` and ``stops`` are half-open ranges in it, one
    for each row; both are -1 for a null, which is a tombstone.
    """

    data: Uint8s
    starts: Int64s
    stops: Int64s

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def is_null(self) -> npt.NDArray[np.bool_]:
        """True for each row that has no message."""
        is_null: npt.NDArray[np.bool_] = self.starts < 0
        return is_null

    def taken(self, rows: Int64s) -> Payloads:
        """The messages of these rows, in this order, in the same buffer."""
        return Payloads(self.data, self.starts[rows], self.stops[rows])


def payloads_of(column: pa.BinaryArray | pa.LargeBinaryArray) -> Payloads:
    """The messages of a binary column, without a copy of their bytes. Slices and nulls are allowed."""
    _, offsets, data = column.buffers()
    dtype = np.int64 if pa.types.is_large_binary(column.type) else np.int32
    count = len(column)
    if offsets is None or not count:  # Arrow leaves out the buffers of an array without rows
        bounds = np.zeros(count + 1, np.int64)
    else:
        first = column.offset * np.dtype(dtype).itemsize
        bounds = np.frombuffer(offsets, dtype, count + 1, first).astype(np.int64)
    starts, stops = bounds[:-1], bounds[1:]
    if column.null_count:
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        starts, stops = np.where(is_null, -1, starts), np.where(is_null, -1, stops)
    return Payloads(byte_array(data if data is not None else b""), starts, stops)


def join_parts(parts: list[tuple[pa.Array, Int64s]], count: int) -> pa.Array:
    """One column of parts, each with the rows of its values. Other rows are null."""
    column = parts[0][0] if len(parts) == 1 else pa.concat_arrays([column for column, _ in parts])
    if len(parts) == 1 and len(column) == count:
        return column
    places = np.full(count, -1, np.int64)
    places[np.concatenate([rows for _, rows in parts])] = np.arange(len(column))
    return column.take(pa.array(places, mask=places < 0))


def encode_integer(value: int) -> bytes:
    """A zigzag integer of 64 bits."""
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
