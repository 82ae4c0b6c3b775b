"""Columns of Arrow as streams of ``encoding_kernels``.

A feed puts the values of one column into its streams. Nulls are left out, and so is all that lies under them:
a stream has only the values that the program takes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafkawire.errors import LimitError, RowError, counted, printable
from spark_kafkawire.records.arrays import Int64s, Uint8s, byte_array, joined

from ..payloads import payloads_of

#: The row of a batch that a value of a column belongs to, for errors.
RowOf = Callable[[int], int]

SIZE_MAX: Final = 2**31 - 1
_NOTHING: Final = np.zeros(0, np.int64)
_DECIMAL_SIZE: Final = 16


@dataclass(slots=True)
class Streams:
    """Streams by their index, and the bytes that places in them refer to."""

    parts: dict[int, Int64s] = field(default_factory=dict)
    contents: list[Any] = field(default_factory=list)
    size: int = 0

    def put_spans(self, stream: int, content: Uint8s, starts: Int64s, sizes: Int64s) -> None:
        """Put places in ``content`` into the stream, and their sizes into the next one."""
        self.parts[stream], self.parts[stream + 1] = starts + self.size, sizes
        self.contents.append(content)
        self.size += len(content)

    def joined(self, count: int) -> tuple[Int64s, Int64s, Uint8s]:
        """All streams one after the other, the place of the first value of each, and the bytes."""
        parts = [self.parts.get(index, _NOTHING) for index in range(count)]
        starts = np.zeros(count + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=starts[1:])
        values = np.concatenate([*parts, _NOTHING])
        return values.astype(np.int64, copy=False), starts, joined(self.contents or [b""])


class Feed(ABC):
    """A step that puts a column without nulls into its streams; ``row_of`` gives the row of each value."""

    @abstractmethod
    def put(self, column: pa.Array, streams: Streams, row_of: RowOf) -> None:
        """Put the values. Raises ``RowError`` (fatal) that names the row and the field of one that does not
        fit."""


@dataclass(frozen=True, slots=True)
class Nullable(Feed):
    """A column that may have nulls: ``null`` and ``value`` are the branches of a union for both.

    ``null`` is None where a null is an error, ``stream`` is -1 where the schema has no union.
    """

    inner: Feed
    path: str
    stream: int = -1
    null: int | None = None
    value: int = 0

    def put(self, column: pa.Array, streams: Streams, row_of: RowOf) -> None:
        is_null = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        if is_null is not None and self.null is None:
            raise _error(
                row_of(int(np.argmax(is_null))),
                self.path,
                "is null, and its schema has no null; fill it, or add null to the schema",
            )
        if self.stream >= 0:
            branches = np.full(len(column), self.value, np.int64)
            if is_null is not None and self.null is not None:
                branches[is_null] = self.null
            streams.parts[self.stream] = branches
        if is_null is not None:
            column, row_of = column.drop_null(), _rows_at(np.flatnonzero(~is_null), row_of)
        self.inner.put(column, streams, row_of)


@dataclass(frozen=True, slots=True)
class Nothing(Feed):
    """A column without streams: all of it is null."""

    def put(self, _column: pa.Array, _streams: Streams, _row_of: RowOf) -> None:
        """Put nothing."""


@dataclass(frozen=True, slots=True)
class Struct(Feed):
    """A struct: feeds of its columns, by their indexes.

    ``endless`` is a field that must have a value, and has no column because its record contains itself too
    often.
    """

    feeds: tuple[tuple[int, Feed], ...]
    endless: str | None = None

    def put(self, column: pa.Array, streams: Streams, row_of: RowOf) -> None:
        if self.endless is not None and len(column):
            raise _error(
                row_of(0),
                self.endless,
                "is missing: its record contains itself too often for a column; make it nullable",
            )
        for index, feed in self.feeds:
            feed.put(column.field(index), streams, row_of)


@dataclass(frozen=True, slots=True)
class Members(Feed):
    """A struct in which one member has a value: the index of each column, its branch and its feed.

    ``null`` is the branch of a struct that is null, and None where the union has no null.
    """

    path: str
    stream: int
    feeds: tuple[tuple[int, int, Feed], ...]
    null: int | None

    def put(self, column: pa.Array, streams: Streams, row_of: RowOf) -> None:
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        if self.null is None and is_null.any():
            raise _error(
                row_of(int(np.argmax(is_null))),
                self.path,
                "is null, and its schema has no null; fill it, or add null to the schema",
            )
        members = [column.field(index) for index, _, _ in self.feeds]
        is_set = np.zeros((len(members) + 1, len(column)), np.bool_)
        for index, member in enumerate(members):
            is_set[index] = member.is_valid().to_numpy(zero_copy_only=False) & ~is_null
        is_set[-1] = is_null
        for bad in np.flatnonzero(is_set.sum(axis=0) != 1)[:1]:
            count = int(is_set[:, bad].sum())
            raise _error(
                row_of(int(bad)),
                self.path,
                f"has {counted(count, 'member')} with values, and a union one; set the others to null",
            )
        branches = np.array([*(branch for _, branch, _ in self.feeds), self.null or 0], np.int64)
        streams.parts[self.stream] = branches[is_set.argmax(axis=0)]
        for (_, _, feed), member, chosen in zip(self.feeds, members, is_set[:-1], strict=True):
            feed.put(member.filter(pa.array(chosen)), streams, _rows_at(np.flatnonzero(chosen), row_of))


@dataclass(frozen=True, slots=True)
class Items(Feed):
    """An array or a map: the counts of items, and the feeds of items, or of keys and values."""

    stream: int
    feeds: tuple[Feed, ...]

    def put(self, column: pa.Array, streams: Streams, row_of: RowOf) -> None:
        offsets = column.offsets.to_numpy().astype(np.int64)
        streams.parts[self.stream] = np.diff(offsets)
        first, last = int(offsets[0]), int(offsets[-1])
        rows = _rows_of_items(offsets - first, row_of)
        for feed, child in zip(self.feeds, _children(column), strict=True):
            feed.put(child.slice(first, last - first), streams, rows)


@dataclass(frozen=True, slots=True)
class Numbers(Feed):
    """Numbers, after a conversion of the column."""

    stream: int
    converted: Callable[[pa.Array], npt.NDArray[Any]]

    def put(self, column: pa.Array, streams: Streams, _row_of: RowOf) -> None:
        streams.parts[self.stream] = self.converted(column).astype(np.int64, copy=False)


@dataclass(frozen=True, slots=True)
class Symbols(Feed):
    """Strings as the indexes of an enum's symbols."""

    path: str
    stream: int
    symbols: tuple[str, ...]

    def put(self, column: pa.Array, streams: Streams, row_of: RowOf) -> None:
        indexes = pc.index_in(column, value_set=pa.array(self.symbols, column.type))
        if indexes.null_count:
            row = row_of(pc.index(indexes.is_null(), True).as_py())
            raise _error(row, self.path, "is no symbol of its enum; correct it, or add it to the schema")
        streams.parts[self.stream] = indexes.to_numpy().astype(np.int64)


@dataclass(frozen=True, slots=True)
class Spans(Feed):
    """Strings or bytes; ``size`` is that of a fixed, None for any size."""

    path: str
    stream: int
    size: int | None = None

    def put(self, column: pa.Array, streams: Streams, row_of: RowOf) -> None:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            self._refuse_broken(column, row_of)
            is_large = pa.types.is_large_string(column.type)
            column = column.cast(pa.large_binary() if is_large else pa.binary())
        places = payloads_of(column)
        sizes = places.stops - places.starts
        if self.size is not None:
            for bad in np.flatnonzero(sizes != self.size)[:1]:
                size = counted(int(sizes[bad]), "byte")
                text = f"has {size}, and the fixed of its schema {self.size}; correct it"
                raise _error(row_of(int(bad)), self.path, text)
        first, last = (int(places.starts[0]), int(places.stops[-1])) if len(column) else (0, 0)
        streams.put_spans(self.stream, places.data[first:last], places.starts - first, sizes)

    def _refuse_broken(self, column: pa.Array, row_of: RowOf) -> None:
        if _is_valid(column):  # Spark's strings may hold any bytes
            return
        row = next(row for row in range(len(column)) if not _is_valid(column.slice(row, 1)))
        raise _error(row_of(row), self.path, "is not UTF-8; correct it")


@dataclass(frozen=True, slots=True)
class Decimals(Feed):
    """Decimals as their unscaled numbers, the highest byte first, in ``size`` bytes or as few as possible."""

    stream: int
    type: pa.DataType
    size: int | None = None

    def put(self, column: pa.Array, streams: Streams, _row_of: RowOf) -> None:
        column = column.cast(self.type)
        _, data = column.buffers()
        first = column.offset * _DECIMAL_SIZE
        numbers = byte_array(data or b"")[first : first + len(column) * _DECIMAL_SIZE]
        content = np.ascontiguousarray(numbers.reshape(-1, _DECIMAL_SIZE)[:, ::-1])
        fills = (content[:, :1] >> 7) * np.uint8(0xFF)
        if self.size is None:
            sizes = _least_sizes(content, fills)
        else:
            content = _extended(content, fills, self.size)
            sizes = np.full(len(column), self.size, np.int64)
        ends = np.arange(1, len(column) + 1, dtype=np.int64) * content.shape[1]
        streams.put_spans(self.stream, content.reshape(-1), ends - sizes, sizes)


def _extended(content: Uint8s, fills: Uint8s, size: int) -> Uint8s:
    more = size - _DECIMAL_SIZE
    if more <= 0:
        return content
    if size * len(content) > SIZE_MAX:
        raise LimitError(
            f"{len(content)} decimals of {size} bytes take more than {SIZE_MAX} bytes: write smaller batches"
        )
    return np.concatenate([np.repeat(fills, more, axis=1), content], axis=1)


def _least_sizes(content: Uint8s, fills: Uint8s) -> Int64s:
    differs = content != fills
    places = np.where(differs.any(axis=1), differs.argmax(axis=1), _DECIMAL_SIZE)
    # The first byte that says more than the sign must not change the sign.
    nexts = content[np.arange(len(content)), np.minimum(places, _DECIMAL_SIZE - 1)]
    needs_sign = (places == _DECIMAL_SIZE) | ((nexts ^ fills[:, 0]) >= 0x80)
    sizes: Int64s = (_DECIMAL_SIZE - places + needs_sign).astype(np.int64)
    return sizes


def _children(column: pa.Array) -> Sequence[pa.Array]:
    return (column.keys, column.items) if pa.types.is_map(column.type) else (column.values,)


def _rows_of_items(bounds: Int64s, row_of: RowOf) -> RowOf:
    return lambda index: row_of(int(np.searchsorted(bounds, index, side="right")) - 1)


def _rows_at(places: Int64s, row_of: RowOf) -> RowOf:
    return lambda index: row_of(int(places[index]))


def _is_valid(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _error(row: int, path: str, text: str) -> RowError:
    return RowError(f"row {row}: {named(path)} {printable(text)}")


def named(path: str) -> str:
    """A field in a message."""
    return f"the Avro field {printable(path)}" if path else "the Avro value"
