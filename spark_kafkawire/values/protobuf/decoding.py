"""Decoding of Protobuf messages to Arrow: streams of values, and the columns that they become."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafkawire.errors import OptionError, quoted
from spark_kafkawire.records.arrays import Int64s, Uint8s, byte_array
from spark_kafkawire.records.compiler import expect

from ..columns import Columns, Flags, Room, checked, gathered
from ..payloads import Decoded, Payloads
from .kernels import DEPTH_MAX, FRAME, decode_each
from .resolution import Domain, Node, Program, Resolver
from .schema import Schema
from .types import Enum, unknown_name

_DTYPES: Final = {pa.int32(): np.int32, pa.int64(): np.int64}


class _Columns(Columns):
    """Columns of messages, from the streams and the flags that a run wrote."""

    def __init__(self, run: _Run, root: Node, is_null: Flags) -> None:
        self._run, self._root, self._is_null = run, root, is_null

    def of(self, node: Any, rows: int) -> pa.Array:
        if node.enum is None or not pa.types.is_string(node.type):
            return super().of(node, rows)
        return _names(node.enum, self._values(node, rows), self.is_null(node, rows))

    def is_null(self, node: Node, rows: int) -> Flags | None:
        if node is self._root:
            return self._is_null
        return self._is_absent(node, rows) if node.is_null else None

    def _is_absent(self, node: Node, rows: int) -> Flags | None:
        return None if node.flag < 0 else ~self._run.flags(node.flag, rows)

    def offsets(self, node: Node, rows: int, _is_null: Any) -> Int64s:
        return checked(np.append(self._run.stream(node.stream, rows), self._run.counts[node.domain]))

    def spans(self, node: Node, rows: int, is_null: Flags | None) -> tuple[Int64s, Uint8s]:
        starts, sizes = self._run.stream(node.stream, rows), self._run.stream(node.stream + 1, rows)
        default = b"" if node.default is None else bytes(node.default)
        is_absent = is_null if node.is_null else self._is_absent(node, rows)
        if is_absent is not None:
            starts = np.where(is_absent, -1, starts)
            sizes = np.where(is_absent, 0 if node.is_null else len(default), sizes)
        return gathered(self._run.data, byte_array(default), starts, sizes)

    def numbers(self, node: Node, rows: int, is_null: Flags | None) -> npt.NDArray[Any]:
        if node.kind != "time":
            return _numbers(node, self._values(node, rows))
        seconds, nanos = (
            np.where(self._run.flags(part.flag, rows), self._run.stream(part.stream, rows), 0)
            for part in node.children
        )
        micros = seconds * 1_000_000 + np.trunc(nanos / 1000).astype(np.int64)
        is_absent = is_null if node.is_null else self._is_absent(node, rows)
        return micros if is_absent is None else np.where(is_absent, 0, micros)

    def _values(self, node: Node, rows: int) -> Int64s:
        values = self._run.stream(node.stream, rows)
        is_absent = None if node.is_null else self._is_absent(node, rows)
        return values if is_absent is None else np.where(is_absent, _bits(node), values)


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


def _names(enum: Enum, values: Int64s, is_null: Flags | None) -> pa.Array:
    """Names of an enum's numbers, as Java's runtime has them: also for numbers that the enum lacks."""
    first_names: dict[int, str] = {}
    for name, number in enum.values:
        first_names.setdefault(number, name)
    numbers = np.array(sorted(first_names), np.int64)
    names = [first_names[number] for number in numbers.tolist()]
    if is_null is not None:
        values = np.where(is_null, numbers[0], values)
    indexes = np.minimum(np.searchsorted(numbers, values), len(numbers) - 1)
    is_unknown = numbers[indexes] != values
    if is_unknown.any():
        unknown, which = np.unique(values[is_unknown], return_inverse=True)
        indexes[is_unknown] = len(names) + which.ravel()
        names += [unknown_name(enum, number) for number in unknown.tolist()]
    return pa.array(names, pa.string()).take(pa.array(indexes, mask=is_null))


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
        column = _Columns(run, self.program.root, is_null).of(self.program.root, len(payloads))
        return Decoded(column, run.faults, run.fields, tuple(self.program.paths))


class _Arrays:
    """A program as ``kernels`` takes it."""

    def __init__(self, program: Program) -> None:
        self._entries = list(program.table)
        domains = [each for domain in program.domains for each in self._numbers(domain)]
        self.code, self.scopes, self.domains, self.table = (
            np.array(each or [0], np.int64) for each in (program.code, program.scopes, domains, self._entries)
        )
        # The domain of each stream and of each flag.
        self.of_streams = np.zeros(program.stream_count, np.int64)
        self.of_flags = np.zeros(program.flag_count, np.int64)
        for index, domain in enumerate(program.domains):
            self.of_streams[domain.streams], self.of_flags[domain.flags] = index, index

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
        self.data = payloads.data
        self.counts, self._cut = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.faults, self.fields = np.zeros(rows, np.uint8), np.full(rows, -1, np.int32)
        self._capacity = np.full(count, max(rows, _SLOTS_MIN), np.int64)
        self._streams = Room(self._capacity[arrays.of_streams], np.int64)
        self._flags = Room(self._capacity[arrays.of_flags], np.uint8)

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
            self._streams.bases,
            self._flags.bases,
            self._streams.arrays[0],
            self._flags.arrays[0],
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
        of_streams, of_flags = self._arrays.of_streams, self._arrays.of_flags
        self._streams = self._streams.widened(self._capacity[of_streams], self.counts[of_streams])
        self._flags = self._flags.widened(self._capacity[of_flags], self.counts[of_flags])

    def stream(self, index: int, count: int) -> Int64s:
        """The first values of a stream."""
        return self._streams.of(index, count)

    def flags(self, index: int, count: int) -> Flags:
        """True where a field is present."""
        flags: Flags = self._flags.of(index, count) != 0
        return flags


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
