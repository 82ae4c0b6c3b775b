"""Comparison of the values of two partitions as columns, in pieces of any size. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: The length that stands for a null.
_NULL_LENGTH: Final = -1


class Differs(Exception):
    """Row ``row``, counted from 0, is not the same on both sides. Never leaves the package."""

    def __init__(self, row: int) -> None:
        super().__init__(f"row {row} differs")
        self.row = row


class Present:
    """The values that the target already holds, removed from the front as they are matched."""

    def __init__(self, values: Iterable[pa.Array]) -> None:
        self._chunks = iter(values)
        self._chunk: pa.Array | None = None
        self.matched_count = 0

    @property
    def is_exhausted(self) -> bool:
        """True if all values of the target were matched."""
        return self._next() is None

    def match(self, values: pa.Array) -> int:
        """The number of these rows that the target holds: all of them, or those before the end of the target.

        Raises ``Differs`` with the row's number among all that were to match.
        """
        matched = 0
        while matched < len(values) and (chunk := self._next()) is not None:
            count = min(len(chunk), len(values) - matched)
            there, wanted = chunk.slice(0, count), values.slice(matched, count)
            if not there.equals(wanted):
                raise Differs(self.matched_count + _first_difference(there, wanted))
            self._chunk = chunk.slice(count)
            matched += count
            self.matched_count += count
        return matched

    def _next(self) -> pa.Array | None:
        """The rest of the current chunk, or the next one that is not empty."""
        while self._chunk is None or not len(self._chunk):
            self._chunk = next(self._chunks, None)
            if self._chunk is None:
                return None
        return self._chunk


class ValuesDigest:
    """Count and checksum of a column of values: equal for equal rows in equal order, in chunks of any size.

    The checksum is the SHA-256 of two of them: of all lengths as big-endian int32, -1 for a null,
    and of all bytes.
    """

    def __init__(self) -> None:
        self.count = 0
        self._lengths = hashlib.sha256()
        self._bytes = hashlib.sha256()

    def update(self, values: pa.Array) -> None:
        """Take the next rows, a binary array."""
        if not len(values):
            return
        self.count += len(values)
        lengths = pc.fill_null(pc.binary_length(values), _NULL_LENGTH)
        self._lengths.update(lengths.to_numpy(zero_copy_only=False).astype(">i4").tobytes())
        # A null may lie over bytes of any kind.
        values = values.fill_null(b"") if values.null_count else values
        _, offsets, data = values.buffers()
        ends = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
        if data is not None:
            self._bytes.update(memoryview(data)[int(ends[0]) : int(ends[-1])])

    @property
    def sha256(self) -> str:
        """The checksum of all values so far, in hex."""
        return hashlib.sha256(self._lengths.digest() + self._bytes.digest()).hexdigest()


def _first_difference(there: pa.Array, wanted: pa.Array) -> int:
    same = pc.fill_null(pc.equal(there, wanted), False)
    both_null = pc.and_(pc.is_null(there), pc.is_null(wanted))
    return int(pc.index(pc.or_(same, both_null), False).as_py())
