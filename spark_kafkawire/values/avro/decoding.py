"""Decoding of Avro messages to Arrow.

A program runs once where each message has one value in each column. With arrays or maps it runs twice: the
first run counts values and finds faults, the second one fills the columns.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafkawire.records.arrays import Int64s, Uint8s, byte_array
from spark_kafkawire.records.compiler import expect

from ..column_types import dtype_of
from ..columns import Columns, Flags, Room, gather_spans, make_decoded, offsets_of
from ..payloads import Decoded, Payloads
from .kernels import DECIMAL_SIZE, DEPTH_MAX, decode_each, gather_decimals
from .resolution import SOURCES, Node, program_of
from .schema import Schema

#: Steps that each byte of a message pays for, at most: one byte may be an item that fills many columns.
_STEPS_OF_BYTE_MAX: Final = 4096
_STEPS_MIN: Final = 256
_NO_ROOM: Final = Room(np.zeros(0, np.int64), np.int64)


class Decoder:
    """Decoder of messages of one writer's schema to an Arrow type.

    ``reader`` is the schema that values are resolved to, with its defaults and aliases; without one it is the
    writer's. ``arrow_type`` is the reader's own or has fewer fields; fields that it lacks are skipped. Of
    equal keys in a map the last one stays, as in Spark's ``from_avro``. Raises ``OptionError`` (fatal) for a
    pair that has no program.
    """

    def __init__(
        self, writer: Schema, reader: Schema | None = None, arrow_type: pa.DataType | None = None
    ) -> None:
        target = reader or writer
        self.arrow_type = target.arrow_type if arrow_type is None else arrow_type
        self.program, self.root = program_of(writer.root, target.root, self.arrow_type)
        self._cost = self.program.cost
        self._has_items = any(
            pa.types.is_list(node.type) or pa.types.is_map(node.type) for node in self.program.nodes
        )
        self._code = np.array(self.program.code, np.int64)
        self._table = np.array(self.program.table or [0], np.int64)

    def decode(self, payloads: Payloads) -> Decoded:
        """The messages' values. Rows of tombstones and of faults are null, and do not influence others."""
        expect(len(payloads))
        present = np.flatnonzero(~payloads.is_null)
        messages = payloads if len(present) == len(payloads) else payloads.taken(present)
        if self._has_items:
            counts, result, fields = self._run(messages, None)
            good = present[result == 0]
            streams = Room(counts, np.int64)
            self._run(payloads.taken(good), streams, checking=False)
        else:
            streams = Room(np.full(self.program.stream_count, len(present)), np.int64)
            counts, result, fields = self._run(messages, streams)
            good = present[result == 0]
        constants = byte_array(bytes(self.program.constants))
        column = _Columns(payloads.data, constants, streams, counts).of(self.root, len(good))
        return make_decoded(len(payloads), [(column, good)], present, result, fields, self.program.paths)

    def _run(
        self, payloads: Payloads, target: Room | None, *, checking: bool = True
    ) -> tuple[Int64s, Uint8s, Any]:
        rows = len(payloads)
        counts = np.zeros(self.program.stream_count, np.int64)
        faults, fields = np.zeros(rows, np.uint8), np.zeros(rows, np.int32)
        streams = target or _NO_ROOM
        if rows:
            decode_each(
                payloads.data,
                np.ascontiguousarray(payloads.starts),
                np.ascontiguousarray(payloads.stops),
                self._code,
                self._table,
                counts,
                np.zeros_like(counts),
                streams.bases,
                streams.arrays[0],
                np.zeros(2 * DEPTH_MAX, np.int64),
                faults,
                fields,
                self._cost + _STEPS_MIN,
                min(self._cost, _STEPS_OF_BYTE_MAX),
                int(checking),
                int(target is not None),
                int(not self._has_items),
            )
        return counts, faults, fields


class _Columns(Columns):
    """Streams of a run as Arrow arrays."""

    def __init__(self, data: Uint8s, constants: Uint8s, streams: Room, counts: Int64s) -> None:
        self.data, self.constants, self.streams, self.counts = data, constants, streams, counts.tolist()

    def stream(self, index: int) -> Any:
        return self.streams.of(index, self.counts[index])

    def is_null(self, node: Node, _rows: int) -> Flags:
        is_null: Flags = self.stream(node.stream) == 0
        return is_null

    def offsets(self, node: Node, _rows: int, _is_null: Any) -> Int64s:
        return offsets_of(self.stream(node.stream + 1))

    def spans(self, node: Node, _rows: int, _is_null: Any) -> tuple[Int64s, Uint8s]:
        first = node.stream
        return gather_spans(self.data, self.constants, self.stream(first + 1), self.stream(first + 2))

    def numbers(self, node: Node, rows: int, _is_null: Any) -> npt.NDArray[Any]:
        values = self.stream(node.stream + 1)
        more = self.stream(node.stream + 2) if node.width == 3 else None
        if not pa.types.is_decimal(node.type):
            return _numbers(node, values, more)
        content = np.empty(max(1, rows * DECIMAL_SIZE), np.uint8)
        if rows:
            gather_decimals(self.data, self.constants, values, more, content)
        return content


def _numbers(node: Node, values: Int64s, sources: Int64s | None) -> npt.NDArray[Any]:
    dtype = dtype_of(node.type)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        if sources is None:
            return _from_source(values, next(iter(node.sources), "integer")).astype(dtype, copy=False)
        numbers = np.empty(len(values), dtype)
        for index, source in enumerate(SOURCES):
            is_of = sources == index
            numbers[is_of] = _from_source(values[is_of], source)
        return numbers


def _from_source(values: Int64s, source: str) -> npt.NDArray[Any]:
    if source == "f8":
        return values.view(np.float64)
    return values.astype(np.uint32).view(np.float32) if source == "f4" else values
