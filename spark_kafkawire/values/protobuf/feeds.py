"""Columns of Arrow as streams of ``encoding_kernels``.

A stream has a value for each slot, present or not. What lies under a null is not looked at: ``live`` is true
for the slots whose message is written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafkawire.errors import RowError, printable
from spark_kafkawire.records.arrays import Int64s, Uint8s

from ..payloads import payloads_of
from .types import Enum, unknown_number

#: The row of a batch that a slot belongs to, for errors.
RowOf = Callable[[int], int]
Live = npt.NDArray[np.bool_]

_DTYPES: Final[dict[pa.DataType, npt.DTypeLike]] = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
}
_UNITS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(slots=True)
class Streams:
    """Streams and flags by their indexes, and the bytes that places in streams refer to."""

    values: dict[int, Int64s] = field(default_factory=dict)
    flags: dict[int, Live] = field(default_factory=dict)
    contents: list[Any] = field(default_factory=list)
    size: int = 0


@dataclass(slots=True)
class Feed(ABC):
    """A step that puts a column into its streams.

    ``flag`` is -1 for an item or a part of a map's entry, which are always present.
    """

    path: str
    flag: int
    is_required: bool = False
    has_presence: bool = True

    @abstractmethod
    def put(self, column: pa.Array, live: Live, streams: Streams, row_of: RowOf) -> None:
        """Put the values. Raises ``RowError`` (fatal) that names the row and the field of one that does not
        fit."""

    def present(self, column: pa.Array, live: Live, row_of: RowOf) -> Live:
        """True for the slots that have a value."""
        if not column.null_count:
            return live
        is_valid = column.is_valid().to_numpy(zero_copy_only=False)
        if self.is_required:
            what = (
                "is null, and is required" if self.flag >= 0 else "has a null item, which no message can have"
            )
            self.refuse(live & ~is_valid, what, row_of)
        present: Live = live & is_valid
        return present

    def refuse(self, is_bad: Live, what: str, row_of: RowOf) -> None:
        """Raise ``RowError`` (fatal) for the first bad slot, if there is one."""
        if is_bad.any():
            row = row_of(int(np.argmax(is_bad)))
            raise RowError(f"row {row}: the Protobuf field {printable(self.path)} {what}; correct the value")

    def put_flags(self, present: Live, is_default: Live, streams: Streams) -> None:
        """Put the flags; a value that is the default is left out if its field has no presence."""
        if self.flag >= 0:
            streams.flags[self.flag] = present if self.has_presence else present & ~is_default


@dataclass(slots=True)
class Group(Feed):
    """A struct: feeds of its columns, by their indexes, and the columns of which one may have a value."""

    feeds: tuple[tuple[int, Feed], ...] = ()
    oneofs: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def __init__(
        self,
        path: str,
        flag: int,
        feeds: tuple[tuple[int, Feed], ...],
        oneofs: tuple[tuple[str, tuple[int, ...]], ...],
    ) -> None:
        self.path, self.flag, self.is_required, self.has_presence = path, flag, False, True
        self.feeds, self.oneofs = feeds, oneofs

    def put(self, column: pa.Array, live: Live, streams: Streams, row_of: RowOf) -> None:
        present = self.present(column, live, row_of)
        if self.flag >= 0:
            streams.flags[self.flag] = present
        for name, indexes in self.oneofs:
            set_ones = [column.field(index).is_valid().to_numpy(zero_copy_only=False) for index in indexes]
            is_bad = present & (np.sum(set_ones, axis=0) > 1)
            if is_bad.any():
                row, inside = row_of(int(np.argmax(is_bad))), f"{self.path}.{name}".lstrip(".")
                raise RowError(
                    f"row {row}: several fields of the Protobuf oneof {printable(inside)} have values; set "
                    "one of them, the others to null"
                )
        for index, feed in self.feeds:
            feed.put(column.field(index), present, streams, row_of)


@dataclass(slots=True)
class Items(Feed):
    """An array or a map: its first items, and the feeds of items, or of keys and values. Null is empty."""

    stream: int = -1
    feeds: tuple[Feed, ...] = ()

    def __init__(self, path: str, stream: int, feeds: tuple[Feed, ...]) -> None:
        self.path, self.flag, self.is_required, self.has_presence = path, -1, False, True
        self.stream, self.feeds = stream, feeds

    def put(self, column: pa.Array, live: Live, streams: Streams, row_of: RowOf) -> None:
        if column.null_count:  # a null may have items
            column = column.take(pa.array(np.arange(len(column))))
        bounds = column.offsets.to_numpy().astype(np.int64)
        first, last = int(bounds[0]), int(bounds[-1])
        bounds -= first
        streams.values[self.stream] = bounds
        are_live = np.repeat(live, np.diff(bounds))

        def row_of_item(item: int) -> int:
            return row_of(int(np.searchsorted(bounds, item, side="right")) - 1)

        is_map = pa.types.is_map(column.type)
        children = (column.keys, column.items) if is_map else (column.values,)
        for feed, child in zip(self.feeds, children, strict=True):
            feed.put(child.slice(first, last - first), are_live, streams, row_of_item)


@dataclass(slots=True)
class Numbers(Feed):
    """Numbers and booleans of a type of Protobuf."""

    stream: int = -1
    kind: str = ""

    def put(self, column: pa.Array, live: Live, streams: Streams, row_of: RowOf) -> None:
        present = self.present(column, live, row_of)
        values = _numbers(column)
        if self.kind == "double":
            bits = values.astype(np.float64, copy=False).view(np.int64)
        elif self.kind == "float":
            bits = values.view(np.uint32).astype(np.int64)
        else:
            bits = values.astype(np.int64, copy=False)
            if self.kind in ("uint32", "fixed32"):
                if column.type == pa.int64():
                    self.refuse(present & (bits >> 32 != 0), f"is no {self.kind}, 0 to 4294967295", row_of)
                bits = bits & 0xFFFFFFFF
        streams.values[self.stream] = bits
        self.put_flags(present, bits == 0, streams)


@dataclass(slots=True)
class Names(Feed):
    """Names of an enum's values, as their numbers."""

    stream: int = -1
    enum: Enum = field(default_factory=lambda: Enum("", False))

    def put(self, column: pa.Array, live: Live, streams: Streams, row_of: RowOf) -> None:
        present = self.present(column, live, row_of)
        names = pa.array([name for name, _ in self.enum.values], column.type)
        found = pc.index_in(column, value_set=names).fill_null(-1).to_numpy()
        numbers = np.array([*(number for _, number in self.enum.values), 0], np.int64)[found]
        is_unknown = present & (found < 0)
        if is_unknown.any() and not self.enum.is_closed:
            others = column.filter(pa.array(is_unknown)).to_pylist()
            numbers[is_unknown] = [unknown_number(self.enum, name) or 0 for name in others]
            is_unknown[is_unknown] = [unknown_number(self.enum, name) is None for name in others]
        self.refuse(is_unknown, f"is no value of the enum {printable(self.enum.name)}", row_of)
        streams.values[self.stream] = numbers
        self.put_flags(present, numbers == 0, streams)


@dataclass(slots=True)
class Spans(Feed):
    """Strings or bytes."""

    stream: int = -1

    def put(self, column: pa.Array, live: Live, streams: Streams, row_of: RowOf) -> None:
        present = self.present(column, live, row_of)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            self._refuse_broken(column, present, row_of)
            is_large = pa.types.is_large_string(column.type)
            column = column.cast(pa.large_binary() if is_large else pa.binary())
        places = payloads_of(column)
        starts, sizes = np.maximum(places.starts, 0), places.stops - places.starts
        first, last = int(starts.min(initial=0)), int(places.stops.max(initial=0))
        streams.values[self.stream] = starts - first + streams.size
        streams.values[self.stream + 1] = sizes
        streams.contents.append(places.data[first:last])
        streams.size += last - first
        self.put_flags(present, sizes == 0, streams)

    def _refuse_broken(self, column: pa.Array, present: Live, row_of: RowOf) -> None:
        if _is_text(column):  # Spark's strings may hold any bytes
            return
        is_bad = np.array([present[k] and not _is_text(column.slice(k, 1)) for k in range(len(column))])
        self.refuse(is_bad, "is not UTF-8", row_of)


@dataclass(slots=True)
class Times(Feed):
    """Timestamps or durations as messages of seconds and nanos, each with its flag and its stream."""

    seconds: tuple[int, int] = (-1, -1)
    nanos: tuple[int, int] = (-1, -1)
    is_point: bool = True

    def put(self, column: pa.Array, live: Live, streams: Streams, row_of: RowOf) -> None:
        present = self.present(column, live, row_of)
        if self.flag >= 0:
            streams.flags[self.flag] = present
        unit = _UNITS[column.type.unit]
        values = np.where(present, _numbers(column.cast(pa.int64())), 0)
        # The nanos of a point in time count upwards; those of a duration have its sign.
        seconds = values // unit
        if not self.is_point:
            seconds += (values < 0) & (values % unit != 0)
        parts = seconds, (values - seconds * unit) * (10**9 // unit)
        for (flag, stream), part in zip((self.seconds, self.nanos), parts, strict=True):
            streams.values[stream] = part
            streams.flags[flag] = present & (part != 0)


def _numbers(column: pa.Array) -> npt.NDArray[Any]:
    """The numbers of a column, of any value where it is null."""
    if pa.types.is_boolean(column.type):
        flags: npt.NDArray[Any] = column.fill_null(False).to_numpy(zero_copy_only=False)
        return flags
    dtype = np.dtype(_DTYPES[column.type])
    if not len(column):
        return np.zeros(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


def _is_text(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def joined(parts: dict[int, Any], count: int, dtype: npt.DTypeLike) -> tuple[npt.NDArray[Any], Int64s]:
    """All streams one after the other, and the place of the first value of each."""
    arrays = [parts[index] for index in range(count)]
    places = np.zeros(count + 1, np.int64)
    np.cumsum([len(array) for array in arrays], out=places[1:])
    whole: npt.NDArray[Any] = np.concatenate([*arrays, np.zeros(1, dtype)]).astype(dtype, copy=False)
    return whole, places


def content_of(streams: Streams) -> Uint8s:
    """The bytes of all spans, one after the other."""
    content: Uint8s = np.concatenate([*streams.contents, np.zeros(1, np.uint8)])
    content.flags.writeable = False
    return content
