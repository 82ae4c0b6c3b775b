"""Messages of a binary column as places in one buffer, the faults of those that cannot be decoded, and the
result of a decoder.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..records.arrays import Int32s, Int64s, Uint8s, byte_array


class Fault(IntEnum):
    """The reason why a message has no value; ``NONE`` for a message that has one."""

    NONE = 0
    TRUNCATED = 1
    TRAILING_BYTES = 2
    BAD_LENGTH = 3
    BAD_VARINT = 4
    BAD_UNION_BRANCH = 5
    BAD_ENUM_INDEX = 6
    BAD_BOOLEAN = 7
    BAD_UTF8 = 8
    TOO_DEEP = 9
    TOO_LARGE = 10
    NOT_REPRESENTABLE = 11
    MISSING_FIELD = 12
    WRONG_TYPE = 13
    BAD_JSON = 14
    BAD_WIRE_TYPE = 15
    NO_FRAME = 16
    UNKNOWN_SCHEMA_ID = 17
    UNRESOLVABLE_SCHEMA = 18
    BAD_MESSAGE_INDEX = 19
    BAD_COMPRESSION = 20


#: One clause for each fault, which an error or ``_corrupt_record.reason`` shows.
REASONS: Final[dict[Fault, str]] = {
    Fault.TRUNCATED: "the message ends before the value does",
    Fault.TRAILING_BYTES: "bytes follow the value",
    Fault.BAD_LENGTH: "a length or a count is negative or larger than the message",
    Fault.BAD_VARINT: "a variable-length integer is longer than its type",
    Fault.BAD_UNION_BRANCH: "a union has no branch of this index, or the reader's type has no such branch",
    Fault.BAD_ENUM_INDEX: "an enum has no symbol of this index, or the reader's enum has no such symbol",
    Fault.BAD_BOOLEAN: "a boolean is neither 0 nor 1",
    Fault.BAD_UTF8: "a string is not UTF-8",
    Fault.TOO_DEEP: "the value is nested more deeply than the limit",
    Fault.TOO_LARGE: "the value takes more memory than the limit",
    Fault.NOT_REPRESENTABLE: "a date, time or number is outside of the range of its column's type",
    Fault.MISSING_FIELD: "a required field is missing",
    Fault.WRONG_TYPE: "a field has another type than its column",
    Fault.BAD_JSON: "the message is not valid JSON",
    Fault.BAD_WIRE_TYPE: "a field has a wire type or a number that no field has",
    Fault.NO_FRAME: "the message does not begin with a schema id",
    Fault.UNKNOWN_SCHEMA_ID: "the registry has no schema of this id",
    Fault.UNRESOLVABLE_SCHEMA: "the message's schema cannot be resolved to the reader's schema",
    Fault.BAD_MESSAGE_INDEX: "the schema has no message type of this index",
    Fault.BAD_COMPRESSION: "the compressed message cannot be decompressed",
}


@dataclass(frozen=True, slots=True)
class Decoded:
    """A column of decoded messages, and the faults of those that have no value.

    ``column`` has the reader's type; it is null in rows of tombstones and of faults. ``faults`` has
    a ``Fault`` for each row. ``fields`` has, for each row with a fault, the index in ``paths`` of the
    field that the fault is in; -1 where no field is known.
    """

    column: pa.Array
    faults: Uint8s
    fields: Int32s
    paths: tuple[str, ...]

    def field(self, row: int) -> str | None:
        """The dotted path of the field that a row's fault is in; None for the message as a whole."""
        index = int(self.fields[row])
        return self.paths[index] if index >= 0 else None

    @property
    def is_bad(self) -> npt.NDArray[np.bool_]:
        """True for each row that has a fault."""
        is_bad: npt.NDArray[np.bool_] = self.faults != Fault.NONE
        return is_bad


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
