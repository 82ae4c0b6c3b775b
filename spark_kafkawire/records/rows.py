"""Rows to write, as Arrow arrays and as the spans that kernels read, and the checksum over their content.

The checksum is the same in any order of the rows: the sum of a 64-bit hash of each.
The hash of a row is a CRC-64 (as in XZ) over its columns, mixed so that sums of rows differ where columns are
exchanged between rows. It recognizes the same rows; it is no protection against a forger.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..errors import OptionError, RowError
from . import compiler
from .arrays import Int64s, Uint8s, byte_array, room
from .columns import check_spans
from .compiler import BYTES, inlined, kernel
from .native import CHECKED, address_of, library_crc64

_NO_ROWS: Final = np.empty(0, np.int64)
#: Overhead of a record of up to some KiB, bytes: varints of its sizes and deltas, or the header of a message
#: of 0.7.
RECORD_OVERHEAD: Final = 12
#: The size of a null.
NULL_SIZE: Final = -1


@dataclass(frozen=True, slots=True, repr=False)
class Records:
    """Rows to write, in order: arrays of equal length. Their repr shows no payload.

    ``values`` and ``keys`` are string or binary arrays (or large ones), null for a null; no keys
    at all are None. ``headers`` is a list array of (key: string, value: binary) structs, null or
    empty for none. ``timestamps_ms`` is int64, null for the time of encoding.
    """

    values: pa.Array
    keys: pa.Array | None = None
    headers: pa.Array | None = None
    timestamps_ms: pa.Array | None = None

    def __post_init__(self) -> None:
        for array in (self.keys, self.headers, self.timestamps_ms):
            if array is not None and len(array) != self.count:
                raise AssertionError(f"columns of {len(array)} and of {self.count} rows")

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self._columns() if column is not None)

    @property
    def size(self) -> int:
        """About how many bytes all rows take in a log, a few more rather than fewer."""
        return self.nbytes + RECORD_OVERHEAD * self.count

    def sizes(self) -> Int64s:
        """Estimated bytes of each row in a log, rather too many than too few; headers count with their
        average over all rows."""
        import pyarrow.compute as pc  # tasks that read import this module, too, without it

        mean = self.headers.nbytes // max(self.count, 1) if self.headers is not None else 0
        sizes = np.full(self.count, mean + RECORD_OVERHEAD, np.int64)
        for column in (self.values, self.keys):
            if column is not None and column.null_count < self.count:
                lengths = pc.binary_length(column)
                sizes += np.asarray(lengths.fill_null(0) if lengths.null_count else lengths)
        return sizes

    def slice(self, start: int, count: int) -> Records:
        """``count`` rows from ``start`` on, without a copy."""
        return Records(*(None if item is None else item.slice(start, count) for item in self._columns()))

    def take(self, rows: pa.Array) -> Records:
        """The rows of these numbers, in this order."""
        return Records(*(None if item is None else item.take(rows) for item in self._columns()))

    @classmethod
    def concat(cls, parts: Sequence[Records]) -> Records:
        """The rows of all parts, one or more, which have the same columns."""
        if len(parts) == 1:
            return parts[0]
        columns = zip(*(part._columns() for part in parts), strict=True)
        return cls(*(None if item[0] is None else pa.concat_arrays(item) for item in columns))

    def _columns(self) -> tuple[pa.Array | None, ...]:
        return self.values, self.keys, self.headers, self.timestamps_ms

    def timestamps(self, now_ms: int) -> Int64s:
        """The timestamp of each row. Raises ``RowError`` (fatal) for one below 0."""
        if self.timestamps_ms is None:
            same = room(self.count, np.int64)
            same.fill(now_ms)
            return same
        # Kernels are compiled for arrays that they could write to, which Arrow's are not.
        timestamps = np.array(self.timestamps_ms.fill_null(now_ms), np.int64)
        given = self.timestamps_ms.is_valid().to_numpy(zero_copy_only=False)
        if (bad := given & (timestamps < 0)).any():
            row = int(np.argmax(bad))
            raise RowError(
                f"row {row}: timestamp {timestamps[row]} ms is before 1970, which Kafka cannot hold; correct "
                "it"
            )
        return timestamps


class Column(NamedTuple):
    """Rows ``data[starts[i]:starts[i] + sizes[i]]``; a null has the size ``NULL_SIZE``.

    Where all rows are null, ``starts`` and ``sizes`` have no length. ``data`` is the array's memory.
    """

    data: Uint8s
    starts: Int64s
    sizes: Int64s

    @classmethod
    def of(cls, array: pa.Array | None, column: str) -> Column:
        """A string or binary array. Raises ``OptionError`` (fatal) for another type."""
        if array is None or array.null_count == len(array):
            return cls(byte_array(b""), _NO_ROWS, _NO_ROWS)
        data, offsets = value_spans(array, column)
        sizes = np.subtract(offsets[1:], offsets[:-1], out=room(len(array), np.int64))
        if array.null_count:
            sizes[array.is_null().to_numpy(zero_copy_only=False)] = NULL_SIZE
        return cls(data, offsets[:-1], sizes)

    def sizes_of(self, count: int) -> Int64s:
        """The bytes of each of ``count`` rows, 0 for a null."""
        return np.maximum(self.sizes, 0) if len(self.sizes) else np.zeros(count, np.int64)


def value_spans(array: pa.Array, column: str) -> tuple[Uint8s, Int64s]:
    """The bytes of a string or binary array, and where each value begins; one more for the end.

    Raises ``OptionError`` (fatal) for an array of another type.
    """
    offset_type = _offset_type(array.type, column)
    if not len(array):
        return byte_array(b""), np.zeros(1, np.int64)
    _, offset_buffer, data_buffer = array.buffers()
    window = slice(array.offset, array.offset + len(array) + 1)
    offsets = room(len(array) + 1, np.int64)
    offsets[:] = np.frombuffer(offset_buffer, offset_type)[window]
    data = byte_array(data_buffer if data_buffer else b"")
    check_spans(offsets, len(data))
    return data, offsets


def _offset_type(array_type: pa.DataType, column: str) -> npt.DTypeLike:
    if pa.types.is_binary(array_type) or pa.types.is_string(array_type):
        return np.int32
    if pa.types.is_large_binary(array_type) or pa.types.is_large_string(array_type):
        return np.int64
    raise OptionError(f"{column} is {array_type} and must be a string or binary: cast it")


def cut_rows(sizes: Int64s, bytes_max: int) -> Iterator[tuple[int, int]]:
    """Consecutive rows whose sizes sum up to ``bytes_max`` at most, or one row: ``[start, stop)``."""
    stops = np.cumsum(sizes)
    start, done = 0, 0
    while start < len(stops):
        stop = max(int(np.searchsorted(stops, done + bytes_max, "right")), start + 1)
        yield start, stop
        start, done = stop, int(stops[stop - 1])


_POLYNOMIAL: Final = 0xC96C5795D7870F42
_LOW_56: Final = (1 << 56) - 1
#: Odd numbers without a pattern: they tell columns apart, and mix.
_MARKS: Final = (0x1E3779B97F4A7C15, 0x3C6EF372FE94F82B, 0x5A5470E5C9B7A3D1, 0x78DDE6E4D2E1C66F)
_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_PARTITION_FACTOR: Final = np.int64(0x2545F4914F6CDD1D)


def content_sum(
    topics: Column, columns: Sequence[Column], count: int, partitions: Int64s | None = None
) -> int:
    """Sum of the hashes of ``count`` rows, modulo 2**64. ``topics`` are those of the rows, or one of all.
    The place of a column (up to three) is a part of its hash; ``partitions`` are those that rows name, 0
    for none."""
    compiler.expect(count)
    crcs = np.zeros(len(topics.sizes), np.int64)
    _extend(crcs, topics, _MARKS[0])
    if len(crcs) == 1:
        crcs = np.full(count, crcs[0])
    if partitions is not None:
        crcs ^= partitions * _PARTITION_FACTOR
    for column, mark in zip(columns, _MARKS[1:], strict=False):
        if len(column.sizes):
            _extend(crcs, column, mark)
    hashes = crcs.view(np.uint64)
    hashes ^= hashes >> np.uint64(32)
    hashes *= _FACTOR
    hashes ^= hashes >> np.uint64(29)
    return int(hashes.sum())


def _extend(crcs: Int64s, column: Column, mark: int) -> None:
    spans = column.data.ctypes.data, column.starts, column.sizes
    extend_crcs(column.data, *spans, mark, _table(), _library(), crcs)


@inlined
def crc64_of(data: Any, pos: int, stop: int, crc: int, table: Any) -> int:
    """The CRC-64 of ``data[pos:stop]`` after bytes with the CRC-64 ``crc``, a signed number."""
    crc ^= -1
    while pos < stop:
        crc = crc >> 8 & _LOW_56 ^ table[(crc ^ data[pos]) & 255]
        pos += 1
    return crc ^ -1


@kernel(f"void({BYTES}, int64, int64[::1], int64[::1], int64, int64[::1], int64, int64[::1])")
def extend_crcs(
    data: Any, address: int, starts: Any, sizes: Any, mark: int, table: Any, library: int, crcs: Any
) -> None:
    """Extend the CRC-64 of each row by the size and the bytes of a column; a null changes nothing.

    ``address`` is that of ``data``, ``library`` that of the library's function, 0 without one. The caller has
    checked that spans lie in ``data``.
    """
    for row in range(len(crcs)):
        size = sizes[row]
        if size >= 0:
            crc = crcs[row] ^ mark ^ size
            if library:
                crcs[row] = library_crc64(library, crc, address + starts[row], size)
            else:
                crcs[row] = crc64_of(data, starts[row], starts[row] + size, crc, table)


@cache
def _library() -> int:
    """Address of ISA-L's CRC-64, for kernels; 0 if it is hidden, or missing as in isal before 1.9: then
    compiled kernels use the table, a byte at a time."""
    types = ctypes.c_uint64, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_uint64
    address = address_of("crc64_ecma_refl", types, (0, CHECKED, len(CHECKED)), 0x995DC9BBDF1939FA)
    if not address:
        compiler.load()
    return address


@cache
def _table() -> Int64s:
    """The CRC-64 of each byte, without inversions, as signed numbers."""
    table = np.arange(256, dtype=np.uint64)
    for _ in range(8):
        table = (table >> np.uint64(1)) ^ (table & np.uint64(1)) * np.uint64(_POLYNOMIAL)
    return table.view(np.int64)
