"""Columns of Arrow from what the loops of a format write: the part that all formats share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafkawire.errors import OptionError
from spark_kafkawire.records.arrays import Int64s, Uint8s, room
from spark_kafkawire.records.columns import validity_bitmap

from ..records.spans import gather
from .payloads import Decoded, join_parts

_SIZE_MAX: Final = 2**31 - 1
Flags = npt.NDArray[np.bool_]


class Columns(ABC):
    """Columns of nodes, which ``of`` makes. A format says where the values of its nodes are.

    A node has the ``type`` of its column, and ``children``: the nodes of a struct's fields, of a list's
    items, of keys and values.
    """

    #: The last entry of a map with a key is where the first one was, as in Python's dict.
    KEEPS_PLACES: ClassVar = False

    @abstractmethod
    def is_null(self, node: Any, rows: int) -> Flags | None:
        """True for rows without a value; None if all have one. The other methods get None then, too."""

    @abstractmethod
    def offsets(self, node: Any, rows: int, is_null: Flags | None) -> Int64s:
        """The offsets of items."""

    @abstractmethod
    def spans(self, node: Any, rows: int, is_null: Flags | None) -> tuple[Int64s, Uint8s]:
        """The offsets and the content of strings or bytes."""

    @abstractmethod
    def numbers(self, node: Any, rows: int, is_null: Flags | None) -> npt.NDArray[Any]:
        """The values of every other type, as Arrow has them; booleans as numbers."""

    def of(self, node: Any, rows: int) -> pa.Array:
        """The column of a node."""
        of = node.type
        if pa.types.is_null(of):
            return pa.nulls(rows)
        is_null = self.is_null(node, rows)
        if is_null is not None and not is_null.any():
            is_null = None
        buffers: list[Any] = [validity_bitmap(None if is_null is None else ~is_null)]
        children: list[pa.Array] = []
        if pa.types.is_struct(of):
            children = [self.of(child, rows) for child in node.children]
        elif pa.types.is_list(of) or pa.types.is_map(of):
            offsets, children = self._items(node, self.offsets(node, rows, is_null))
            buffers.append(pa.py_buffer(offsets.astype(np.int32)))
        elif pa.types.is_string(of) or pa.types.is_binary(of):
            offsets, content = self.spans(node, rows, is_null)
            buffers += pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(content)
        elif pa.types.is_boolean(of):
            buffers.append(validity_bitmap(self.numbers(node, rows, is_null) != 0))
        else:
            buffers.append(pa.py_buffer(np.ascontiguousarray(self.numbers(node, rows, is_null))))
        return pa.Array.from_buffers(of, rows, buffers, children=children)

    def _items(self, node: Any, offsets: Int64s) -> tuple[Int64s, list[pa.Array]]:
        children = [self.of(child, int(offsets[-1])) for child in node.children]
        if pa.types.is_map(node.type):
            lasts = self._lasts(children[0], offsets)
            if lasts is not None:
                children = [child.take(pa.array(lasts)) for child in children]
                offsets = np.searchsorted(np.sort(lasts), offsets)
            pairs = pa.struct([node.type.key_field, node.type.item_field])
            children = [pa.Array.from_buffers(pairs, int(offsets[-1]), [None], children=children)]
        return offsets, children

    def _lasts(self, keys: pa.Array, offsets: Int64s) -> Int64s | None:
        """The entries of maps that no other one with its key follows; None if this is true for all."""
        sizes = np.diff(offsets)
        if not len(keys) or sizes.max() < 2:
            return None
        codes = keys.dictionary_encode()
        entries = np.repeat(np.arange(len(sizes)), sizes) * len(codes.dictionary) + codes.indices.to_numpy()
        in_order = np.sort(entries, kind="stable")  # most are in order
        if (in_order[1:] != in_order[:-1]).all():
            return None
        # Of equal ones, np.unique gives the first: so they come from the end.
        lasts = len(keys) - 1 - np.unique(entries[::-1], return_index=True)[1]
        if self.KEEPS_PLACES:
            return lasts[np.argsort(np.unique(entries, return_index=True)[1])]
        return np.sort(lasts)


def offsets_of(sizes: Int64s) -> Int64s:
    """The offsets of values of these sizes. Raises ``OptionError`` (fatal) if Arrow cannot have so many."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return check_offsets(offsets)


def check_offsets(offsets: Int64s) -> Int64s:
    """The offsets. Raises ``OptionError`` (fatal) if Arrow cannot have so many bytes or items."""
    if offsets[-1] > _SIZE_MAX:
        raise OptionError(
            f"a column of {offsets[-1]} bytes or items is larger than {_SIZE_MAX}: read fewer rows at once"
        )
    return offsets


def gather_spans(data: Uint8s, constants: Uint8s, starts: Int64s, sizes: Int64s) -> tuple[Int64s, Uint8s]:
    """The offsets and the content of spans of ``data``; a start below 0 is a place in ``constants``."""
    offsets = offsets_of(sizes)
    content = room(max(1, int(offsets[-1])), np.uint8)
    if len(starts):
        gather(data, constants, np.ascontiguousarray(starts), np.ascontiguousarray(sizes), offsets, content)
    return offsets, content


class Room:
    """Room for streams of values: ``sizes`` of each, one stream after the other, in arrays of ``dtypes``."""

    def __init__(self, sizes: Int64s, *dtypes: npt.DTypeLike) -> None:
        self.bases = np.append(0, np.cumsum(sizes))
        self._starts: list[int] = self.bases.tolist()
        self.arrays = tuple(room(max(1, self._starts[-1]), dtype) for dtype in dtypes)

    def of(self, stream: int, count: int, array: int = 0) -> npt.NDArray[Any]:
        """The first values of a stream."""
        start = self._starts[stream]
        return self.arrays[array][start : start + count]

    def widened(self, sizes: Int64s, counts: Int64s) -> Room:
        """Other room, with the first values of each stream."""
        wider = Room(sizes, *(array.dtype for array in self.arrays))
        for index in range(len(self.arrays)):
            for stream, count in enumerate(counts.tolist()):
                wider.of(stream, count, index)[:] = self.of(stream, count, index)
        return wider


def make_decoded(
    count: int,
    columns: list[tuple[pa.Array, Int64s]],
    present: Int64s,
    faults: Uint8s,
    fields: Any,
    paths: tuple[str, ...],
) -> Decoded:
    """The result of columns, each with the rows of its values, and of the faults of rows that are present."""
    all_faults, all_fields = np.zeros(count, np.uint8), np.full(count, -1, np.int32)
    all_faults[present], all_fields[present] = faults, fields
    return Decoded(join_parts(columns, count), all_faults, all_fields, paths)
