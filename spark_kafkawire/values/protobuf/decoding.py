"""Decoding of Protobuf messages to Arrow: streams of values, and the columns that they become."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafkawire.errors import OptionError, quote
from spark_kafkawire.records.arrays import Int64s, Uint8s, byte_array
from spark_kafkawire.records.compiler import expect

from ..column_types import dtype_of
from ..columns import Columns, Flags, Room, check_offsets, gather_spans
from ..payloads import Decoded, Payloads
from .kernels import DEPTH_MAX, FRAME, decode_each
from .resolution import Node, Program
from .schema import Schema
from .types import Enum, unknown_name


class _Columns(Columns):
    """Columns of messages, from the streams and the flags that the loop wrote."""

    def __init__(
        self, data: Uint8s, streams: Room, flags: Room, counts: Int64s, root: Node, is_null: Flags
    ) -> None:
        self._data, self._stream, self._flags, self._counts = data, streams.of, flags.of, counts
        self._root, self._is_null = root, is_null

    def of(self, node: Any, rows: int) -> pa.Array:
        if node.enum is None or not pa.types.is_string(node.type):
            return super().of(node, rows)
        return _names(node.enum, self._values(node, rows), self.is_null(node, rows))

    def is_null(self, node: Node, rows: int) -> Flags | None:
        if node is self._root:
            return self._is_null
        return self._is_absent(node, rows) if node.is_null else None

    def _is_absent(self, node: Node, rows: int) -> Flags | None:
        return None if node.flag < 0 else self._flags(node.flag, rows) == 0

    def offsets(self, node: Node, rows: int, _is_null: Any) -> Int64s:
        return check_offsets(np.append(self._stream(node.stream, rows), self._counts[node.domain]))

    def spans(self, node: Node, rows: int, is_null: Flags | None) -> tuple[Int64s, Uint8s]:
        starts, sizes = self._stream(node.stream, rows), self._stream(node.stream + 1, rows)
        default = b"" if node.default is None else bytes(node.default)
        is_absent = is_null if node.is_null else self._is_absent(node, rows)
        if is_absent is not None:
            starts = np.where(is_absent, -1, starts)
            sizes = np.where(is_absent, 0 if node.is_null else len(default), sizes)
        return gather_spans(self._data, byte_array(default), starts, sizes)

    def numbers(self, node: Node, rows: int, is_null: Flags | None) -> npt.NDArray[Any]:
        if node.kind != "time":
            return _numbers(node, self._values(node, rows))
        seconds, nanos = (
            np.where(self._flags(part.flag, rows) != 0, self._stream(part.stream, rows), 0)
            for part in node.children
        )
        micros = seconds * 1_000_000 + np.trunc(nanos / 1000).astype(np.int64)
        is_absent = is_null if node.is_null else self._is_absent(node, rows)
        return micros if is_absent is None else np.where(is_absent, 0, micros)

    def _values(self, node: Node, rows: int) -> Int64s:
        values = self._stream(node.stream, rows)
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


def _numbers(node: Node, values: Int64s) -> npt.NDArray[Any]:
    if node.kind == "double":
        return values.view(np.float64)
    if node.kind == "float":
        return values.astype(np.uint32).view(np.float32).astype(node.type.to_pandas_dtype(), copy=False)
    if node.type == pa.int64() and node.kind in ("uint32", "fixed32"):
        return values & 0xFFFFFFFF
    if node.type == pa.int64() and node.kind == "sfixed32":
        return values.astype(np.int32).astype(np.int64)
    return values.astype(dtype_of(node.type), copy=False)


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
        self.program = Program(source.root, target.root, self.arrow_type)
        self._of_streams = np.array(self.program.streams, np.int64)
        self._of_flags = np.array(self.program.flags, np.int64)
        self._paths = tuple(self.program.paths)

    def decode(self, payloads: Payloads) -> Decoded:
        """The messages' values. Rows of tombstones and of faults are null, and do not influence others."""
        expect(len(payloads))
        program, rows, row = self.program, len(payloads), 0
        starts, stops = map(np.ascontiguousarray, (payloads.starts, payloads.stops))
        counts, saved, cut = (np.zeros(len(program.domains), np.int64) for _ in range(3))
        slots = np.full(len(counts), max(rows, _SLOTS_MIN), np.int64)
        streams, flags = Room(slots[self._of_streams], np.int64), Room(slots[self._of_flags], np.uint8)
        stack = np.zeros(FRAME * DEPTH_MAX, np.int64)
        faults, fields = np.zeros(rows, np.uint8), np.full(rows, -1, np.int32)
        while row < rows:
            written = streams.bases, flags.bases, *streams.arrays, *flags.arrays
            state: tuple[Any, ...] = (*program.arrays, counts, saved, cut, slots, *written, stack)
            row = decode_each(*(payloads.data, starts, stops, row, *state, faults, fields))
            if row < rows:
                slots[cut[0]] = _more(int(slots[cut[0]]), (row + 1) / rows)
                streams = streams.widened(slots[self._of_streams], counts[self._of_streams])
                flags = flags.widened(slots[self._of_flags], counts[self._of_flags])
        root, is_null = program.root, payloads.is_null | (faults != 0)
        column = _Columns(payloads.data, streams, flags, counts, root, is_null).of(root, rows)
        return Decoded(column, faults, fields, self._paths)


def _more(slots: int, share: float) -> int:
    """Slots for the items of all rows, if the others are like the share that is done."""
    more = max(2 * slots, int(min(slots / share, 64 * slots)))
    if more > 2 * _SLOTS_MAX:
        raise OptionError(f"a repeated field has more than {_SLOTS_MAX} items: read fewer rows at once")
    return more


def _expect_same(source: Schema, target: Schema) -> None:
    """Refuse to read a message as another one that the reader's schema has besides."""
    if source.name == target.name:
        return
    try:
        target.find_message_type(str(source.name))
    except OptionError:
        return  # it has another name in the reader's schema
    raise OptionError(
        f"the messages are of the type {quote(source.name)}, and the column is of {quote(target.name)}: "
        "set valueMessage to the first"
    )
