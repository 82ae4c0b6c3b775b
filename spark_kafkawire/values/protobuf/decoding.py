"""Decoding of Protobuf messages to Arrow: streams of values, and the columns that they become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafkawire.errors import OptionError, quoted
from spark_kafkawire.records.arrays import Int64s, Uint8s, byte_array, room
from spark_kafkawire.records.compiler import expect

from ..payloads import Decoded, Payloads
from ..span_kernels import gather
from .kernels import DEPTH_MAX, FRAME, decode_each
from .resolution import Domain, Node, Program, Resolver
from .schema import Schema
from .types import Enum, unknown_name

_SPAN_BYTES_MAX: Final = 2**31 - 1
_DTYPES: Final = {pa.int32(): np.int32, pa.int64(): np.int64}
_Flags = npt.NDArray[np.bool_]


class Columns:
    """Columns of messages: ``stream`` and ``flags`` give what a run wrote, ``counts`` the slots of
    domains."""

    def __init__(
        self,
        data: Uint8s,
        stream: Callable[[int, int], Int64s],
        flags: Callable[[int, int], _Flags],
        counts: Int64s,
    ) -> None:
        self._data, self._stream, self._flags, self._counts = data, stream, flags, counts

    def root(self, node: Node, is_null: _Flags) -> pa.Array:
        """The column of the messages themselves."""
        children = [self._of(child, len(is_null)) for child in node.children]
        return _struct(node.type, len(is_null), _bitmap(~is_null), children)

    def _of(self, node: Node, rows: int) -> pa.Array:
        if node.kind in ("repeated", "map"):
            return self._items(node, rows)
        present = None if node.flag < 0 else self._flags(node.flag, rows)
        if present is not None and present.all():
            present = None
        validity = pa.array(present).buffers()[1] if present is not None and node.is_null else None
        if node.kind == "struct":
            return _struct(node.type, rows, validity, [self._of(child, rows) for child in node.children])
        if node.kind in ("string", "bytes"):
            return self._spans(node, rows, present, validity)
        if node.kind == "time":
            values = self._micros(node, rows, present)
        else:
            values = self._stream(node.stream, rows)
            if not node.is_null and present is not None:
                values = np.where(present, values, _bits(node))
        if node.enum is not None and pa.types.is_string(node.type):
            return _names(node.enum, values, present if node.is_null else None)
        if pa.types.is_boolean(node.type):
            return pa.Array.from_buffers(node.type, rows, [validity, pa.array(values != 0).buffers()[1]])
        content = np.ascontiguousarray(_numbers(node, values))
        return pa.Array.from_buffers(node.type, rows, [validity, pa.py_buffer(content)])

    def _items(self, node: Node, rows: int) -> pa.Array:
        count = int(self._counts[node.domain])
        offsets = np.append(self._stream(node.stream, rows), count)
        if count > _SPAN_BYTES_MAX:
            raise _too_large(count)
        child = self._of(node.children[0], count)
        if node.kind == "map":
            offsets, child = _without_doubles(offsets, child)
        buffers = [None, pa.py_buffer(offsets.astype(np.int32))]
        return pa.Array.from_buffers(node.type, rows, buffers, children=[child])

    def _spans(self, node: Node, rows: int, present: _Flags | None, validity: Any) -> pa.Array:
        starts, sizes = self._stream(node.stream, rows), self._stream(node.stream + 1, rows)
        default = b"" if node.default is None else bytes(node.default)
        if present is not None:
            starts = np.where(present, starts, -1)
            sizes = np.where(present, sizes, 0 if node.is_null else len(default))
        offsets = np.zeros(rows + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        if offsets[-1] > _SPAN_BYTES_MAX:
            raise _too_large(int(offsets[-1]))
        content = room(max(1, int(offsets[-1])), np.uint8)
        if rows:
            gather(
                self._data,
                byte_array(default),
                np.ascontiguousarray(starts),
                np.ascontiguousarray(sizes),
                offsets,
                content,
            )
        buffers = [validity, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(content)]
        return pa.Array.from_buffers(node.type, rows, buffers)

    def _micros(self, node: Node, rows: int, present: _Flags | None) -> Int64s:
        seconds, nanos = (
            np.where(self._flags(part.flag, rows), self._stream(part.stream, rows), 0)
            for part in node.children
        )
        micros = seconds * 1_000_000 + np.trunc(nanos / 1000).astype(np.int64)
        return micros if present is None else np.where(present, micros, 0)


def _struct(of: pa.DataType, rows: int, validity: Any, children: list[pa.Array]) -> pa.Array:
    return pa.Array.from_buffers(of, rows, [validity], children=children)


def _bitmap(flags: _Flags) -> Any:
    """Bits of flags; None if all are set."""
    return None if flags.all() else pa.array(flags).buffers()[1]


def _bits(node: Node) -> int:
    """The default as its stream has it."""
    if node.enum is not None and node.default is None:
        return node.enum.values[0][1]
    if node.default is None:
        return 0
    if node.kind == "float":
        return int(np.float32(node.default).view(np.int32))
    if node.kind == "double":
        return int(np.float64(node.default).view(np.int64))
    return int(node.default)


def _numbers(node: Node, values: Int64s) -> Any:
    if node.kind == "double":
        return values.view(np.float64)
    if node.kind == "float":
        return values.astype(np.uint32).view(np.float32).astype(node.type.to_pandas_dtype(), copy=False)
    if node.type == pa.int64() and node.kind in ("uint32", "fixed32"):
        return values & 0xFFFFFFFF
    if node.type == pa.int64() and node.kind == "sfixed32":
        return values.astype(np.int32).astype(np.int64)
    return values.astype(_DTYPES.get(node.type, np.int64), copy=False)


def _names(enum: Enum, values: Int64s, present: _Flags | None) -> pa.Array:
    """Names of an enum's numbers, as Java's runtime has them: also for numbers that the enum lacks."""
    first_names: dict[int, str] = {}
    for name, number in enum.values:
        first_names.setdefault(number, name)
    numbers = np.array(sorted(first_names), np.int64)
    names = [first_names[number] for number in numbers.tolist()]
    if present is not None:
        values = np.where(present, values, numbers[0])
    indexes = np.minimum(np.searchsorted(numbers, values), len(numbers) - 1)
    is_unknown = numbers[indexes] != values
    if is_unknown.any():
        unknown, which = np.unique(values[is_unknown], return_inverse=True)
        indexes[is_unknown] = len(names) + which.ravel()
        names += [unknown_name(enum, number) for number in unknown.tolist()]
    places = pa.array(indexes, mask=None if present is None else ~present)
    return pa.array(names, pa.string()).take(places)


def _without_doubles(offsets: Int64s, entries: pa.StructArray) -> tuple[Int64s, pa.StructArray]:
    """Entries of maps with the last one of each key."""
    count = len(entries)
    codes = entries.field(0).dictionary_encode().indices.to_numpy().astype(np.int64)
    maps = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    pairs = maps * (int(codes.max(initial=0)) + 1) + codes
    # Of equal ones, np.unique gives the first: so they come from the end.
    last = count - 1 - np.unique(pairs[::-1], return_index=True)[1]
    if len(last) == count:
        return offsets, entries
    last.sort()
    return np.searchsorted(last, offsets), entries.take(pa.array(last))


def _too_large(count: int) -> OptionError:
    return OptionError(
        f"a column of {count} bytes or items is larger than {_SPAN_BYTES_MAX}: read fewer rows at once"
    )


#: Slots of a domain at first: one item for each row.
_SLOTS_MIN: Final = 64
_SLOTS_MAX: Final = 2**31 - 1


class Decoder:
    """Decoder of messages of one writer's schema to an Arrow type.

    ``indexes`` is the place of the messages' type in the writer's schema, if it is not the schema's own.
    ``reader`` is the schema whose message they are read as, by the numbers of fields; without one it is the
    writer's. ``arrow_type`` is the reader's own or has fewer fields; fields that it lacks are skipped.
    Items of a message in a oneof need their required fields also where a later member replaces it. Raises
    ``OptionError`` (fatal) for a pair that has no program, and for indexes that the writer's schema does not
    have.
    """

    def __init__(
        self,
        writer: Schema,
        reader: Schema | None = None,
        arrow_type: pa.DataType | None = None,
        indexes: tuple[int, ...] | None = None,
    ) -> None:
        source = writer if indexes is None else writer.at(indexes)
        if source is None:
            raise OptionError(
                f"the Protobuf schema has no message at the indexes {list(indexes or ())}, which the "
                "record names: it was written with another schema; give that one"
            )
        target = source if reader is None or reader is writer else reader
        _expect_same(source, target)
        self.arrow_type = target.arrow_type if arrow_type is None else arrow_type
        self.program = Resolver().compile(source.root, target.root, self.arrow_type)
        self._arrays = _Arrays(self.program)

    def decode(self, payloads: Payloads) -> Decoded:
        """The messages' values. Rows of tombstones and of faults are null, and do not influence others."""
        expect(len(payloads))
        run = _Run(self.program, self._arrays, payloads)
        run.run()
        is_null = payloads.is_null | (run.faults != 0)
        column = Columns(payloads.data, run.stream, run.flags, run.counts).root(self.program.root, is_null)
        return Decoded(column, run.faults, run.fields, tuple(self.program.paths))


class _Arrays:
    """A program as ``kernels`` takes it."""

    def __init__(self, program: Program) -> None:
        self._entries = list(program.table)
        domains = [each for domain in program.domains for each in self._numbers(domain)]
        self.code, self.scopes, self.domains, self.table = (
            np.array(each or [0], np.int64) for each in (program.code, program.scopes, domains, self._entries)
        )

    def _numbers(self, domain: Domain) -> tuple[int, ...]:
        """The integers of a domain; what they refer to goes into the table."""
        places = []
        for entries in (
            domain.flags,
            [each for pair in domain.lists for each in pair],
            [each for triple in domain.required for each in triple],
        ):
            places.append(len(self._entries))
            self._entries += entries
        size = len(domain.flags) + len(domain.streams)
        flags, lists, required = places
        return flags, len(domain.flags), lists, len(domain.lists), size, required, len(domain.required)


class _Run:
    """A run over messages, in room that grows with the items of repeated fields."""

    def __init__(self, program: Program, arrays: _Arrays, payloads: Payloads) -> None:
        self._program, self._arrays = program, arrays
        starts, stops = map(np.ascontiguousarray, (payloads.starts, payloads.stops))
        self._payloads = Payloads(payloads.data, starts, stops)
        rows, count = len(payloads), len(program.domains)
        self.counts, self._cut = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.faults, self.fields = np.zeros(rows, np.uint8), np.full(rows, -1, np.int32)
        self._capacity = np.full(count, max(rows, _SLOTS_MIN), np.int64)
        self._room()

    def _room(self) -> None:
        domains, capacity = self._program.domains, self._capacity
        streams = [(domain.streams, capacity[index]) for index, domain in enumerate(domains)]
        flags = [(domain.flags, capacity[index]) for index, domain in enumerate(domains)]
        self._places, size = _placed(streams, self._program.stream_count)
        self._out = room(size, np.int64)
        self._flag_places, size = _placed(flags, self._program.flag_count)
        self._flags = room(size, np.uint8)

    def run(self) -> None:
        """Decode all rows."""
        row, rows = 0, len(self._payloads)
        while row < rows:
            row = self._run_from(row)
            if row < rows:
                self._grow(int(self._cut[0]), (row + 1) / rows)

    def _run_from(self, row: int) -> int:
        """Decode rows as far as there is room."""
        return decode_each(
            self._payloads.data,
            self._payloads.starts,
            self._payloads.stops,
            row,
            self._arrays.code,
            self._arrays.scopes,
            self._arrays.domains,
            self._arrays.table,
            self.counts,
            np.zeros_like(self.counts),
            self._cut,
            self._capacity,
            self._places,
            self._flag_places,
            self._out,
            self._flags,
            np.zeros(FRAME * DEPTH_MAX, np.int64),
            self.faults,
            self.fields,
        )

    def _grow(self, domain: int, share: float) -> None:
        """Make room for the items of the other rows, if they are like those of the share that is done."""
        slots = int(self._capacity[domain])
        self._capacity[domain] = max(2 * slots, int(min(slots / share, 64 * slots)))
        if self._capacity[domain] > 2 * _SLOTS_MAX:
            raise OptionError(f"a repeated field has more than {_SLOTS_MAX} items: read fewer rows at once")
        before = self._places, self._out, self._flag_places, self._flags
        self._room()
        places, out, flag_places, flags = before
        for count, each in zip(self.counts.tolist(), self._program.domains, strict=True):
            for k in each.streams:
                self._out[self._places[k] :][:count] = out[places[k] :][:count]
            for k in each.flags:
                self._flags[self._flag_places[k] :][:count] = flags[flag_places[k] :][:count]

    def stream(self, index: int, count: int) -> Int64s:
        """The first values of a stream."""
        return self._out[self._places[index] :][:count]

    def flags(self, index: int, count: int) -> npt.NDArray[np.bool_]:
        """True where a field is present."""
        flags: npt.NDArray[np.bool_] = self._flags[self._flag_places[index] :][:count] != 0
        return flags


def _placed(groups: list[tuple[list[int], int]], count: int) -> tuple[Int64s, int]:
    """The place of each stream, and the size of all; each group is streams and the slots of each."""
    places, size = np.zeros(max(count, 1), np.int64), 0
    for streams, slots in groups:
        for index in streams:
            places[index] = size
            size += int(slots)
    return places, max(size, 1)


def _expect_same(source: Schema, target: Schema) -> None:
    """Refuse to read a message as another one that the reader's schema has besides."""
    if source.name == target.name:
        return
    try:
        target.at_name(str(source.name))
    except OptionError:
        return  # it has another name in the reader's schema
    raise OptionError(
        f"the messages are of the type {quoted(source.name)}, and the column is of {quoted(target.name)}: "
        "set valueMessage to the first"
    )
