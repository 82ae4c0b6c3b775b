"""Columns of Arrow as streams of integers and bytes, which the loops of a format encode: the part that all
formats share.

Avro has values alone: its feeds leave out nulls and all that lies under them. Protobuf has a value for each
slot, present or not: what lies under a null is not looked at.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafkawire.errors import RowError, counted
from spark_kafkawire.records.arrays import Int64s, Uint8s, join_arrays

from .column_types import is_text
from .payloads import payloads_of

#: The row of a batch that a value of a column belongs to, for errors.
RowOf = Callable[[int], int]
#: True for slots whose message is written; None if nulls are left out, so that every value is.
Live = npt.NDArray[np.bool_] | None


@dataclass(slots=True)
class Streams:
    """Streams and flags by their indexes, and the bytes that places in streams refer to."""

    values: dict[int, Int64s] = field(default_factory=dict)
    flags: dict[int, npt.NDArray[np.bool_]] = field(default_factory=dict)
    contents: list[Any] = field(default_factory=list)
    size: int = 0

    def put_spans(self, stream: int, content: Uint8s, starts: Int64s, sizes: Int64s) -> None:
        """Put places in ``content`` into the stream, and their sizes into the next one."""
        self.values[stream], self.values[stream + 1] = starts + self.size, sizes
        self.contents.append(content)
        self.size += len(content)

    def content(self) -> Uint8s:
        """The bytes, which are taken away."""
        return join_arrays(self.contents or [b""])


def join_streams(
    parts: Mapping[int, Any], count: int, dtype: npt.DTypeLike
) -> tuple[npt.NDArray[Any], Int64s]:
    """All streams one after the other, and the place of the first value of each."""
    end = np.zeros(1, dtype)
    nothing = end[1:]
    arrays = [parts.get(index, nothing) for index in range(count)]
    places = np.append(0, np.cumsum([len(array) for array in arrays], dtype=np.int64))
    return np.concatenate([*arrays, end]).astype(dtype, copy=False), places


@dataclass(frozen=True, slots=True)
class Place:
    """A field and the remedy for most of its values that do not fit, for errors."""

    name: str
    remedy: str

    def refuse(self, is_bad: npt.NDArray[np.bool_], what: str, row_of: RowOf, remedy: str = "") -> None:
        """Raise ``RowError`` (fatal) for the first bad value, if there is one."""
        if is_bad.any():
            row = row_of(int(np.argmax(is_bad)))
            raise RowError(f"row {row}: {self.name} {what}; {remedy or self.remedy}")


class Feed(ABC):
    """A step that puts a column into its streams; ``row_of`` gives the row of each value."""

    __slots__ = ()

    @abstractmethod
    def put(self, column: pa.Array, live: Live, streams: Streams, row_of: RowOf) -> Int64s | None:
        """Put the values. Returns numbers that are 0 where a value is its type's default, if it has one.

        Raises ``RowError`` (fatal) that names the row and the field of a value that does not fit.
        """


@dataclass(frozen=True, slots=True)
class Items(Feed):
    """An array or a map: the counts of items or the first ones, and the feeds of items, or of keys and
    values. A null is empty."""

    stream: int
    feeds: tuple[Feed, ...]

    def put(self, column: pa.Array, live: Live, streams: Streams, row_of: RowOf) -> None:
        if column.null_count:  # a null may have items
            column = column.take(pa.array(np.arange(len(column))))
        bounds = column.offsets.to_numpy().astype(np.int64)
        first, last = int(bounds[0]), int(bounds[-1])
        bounds -= first
        counts = np.diff(bounds)
        streams.values[self.stream] = counts if live is None else bounds
        are_live = None if live is None else np.repeat(live, counts)

        def row_of_item(item: int) -> int:
            return row_of(int(np.searchsorted(bounds, item, side="right")) - 1)

        children = (column.keys, column.items) if pa.types.is_map(column.type) else (column.values,)
        for feed, child in zip(self.feeds, children, strict=True):
            feed.put(child.slice(first, last - first), are_live, streams, row_of_item)


@dataclass(frozen=True, slots=True)
class Numbers(Feed):
    """Numbers, after a conversion of the column."""

    stream: int
    converted: Callable[[pa.Array], npt.NDArray[Any]]

    def put(self, column: pa.Array, _live: Live, streams: Streams, _row_of: RowOf) -> Int64s:
        values = streams.values[self.stream] = self.converted(column).astype(np.int64, copy=False)
        return values


@dataclass(frozen=True, slots=True)
class Spans(Feed):
    """Strings or bytes; ``size`` is that of a fixed, None for any size."""

    place: Place
    stream: int
    size: int | None = None

    def put(self, column: pa.Array, live: Live, streams: Streams, row_of: RowOf) -> Int64s:
        if is_text(column.type):
            if not is_valid(column):
                self.place.refuse(find_broken(column, live), "is not UTF-8", row_of)
            column = column.cast(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())
        places = payloads_of(column)
        starts, sizes = places.starts, places.stops - places.starts
        if self.size is not None and (is_bad := sizes != self.size).any():
            size = counted(int(sizes[np.argmax(is_bad)]), "byte")
            self.place.refuse(is_bad, f"has {size}, and the fixed of its schema {self.size}", row_of)
        first, last = (int(starts[0]), int(places.stops[-1])) if len(column) else (0, 0)
        if column.null_count:
            first, last = max(0, first), max(0, int(places.stops.max()))
            starts = np.maximum(starts, first)
        streams.put_spans(self.stream, places.data[first:last], starts - first, sizes)
        return sizes


def find_broken(column: pa.Array, live: Live = None) -> npt.NDArray[np.bool_]:
    """True for strings that are not UTF-8: Spark's may hold any bytes."""
    rows = range(len(column))
    return np.array([(live is None or live[row]) and not is_valid(column.slice(row, 1)) for row in rows])


def is_valid(column: pa.Array) -> bool:
    """True if all strings are UTF-8."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def messages_of(column: pa.Array, offsets: Int64s, content: pa.Buffer) -> pa.BinaryArray:
    """The messages of a column, null where it is null."""
    validity = column.is_valid().buffers()[1] if column.null_count else None
    bounds = pa.py_buffer(offsets.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), len(column), [validity, bounds, content])
