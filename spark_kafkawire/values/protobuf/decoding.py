"""Decoding of Protobuf messages to Arrow."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafkawire.errors import OptionError, quoted
from spark_kafkawire.records.arrays import Int64s, room
from spark_kafkawire.records.compiler import expect

from ..faults import Decoded
from ..payloads import Payloads
from .columns import Columns
from .kernels import decode_each
from .layout import DEPTH_MAX, FRAME
from .resolution import Domain, Program, Resolver
from .schema import Schema

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
