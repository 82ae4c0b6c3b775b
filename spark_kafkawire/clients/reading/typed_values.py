"""Record batches with typed keys and values, and what ``badRecords`` makes of messages without a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafkawire.errors import LOG, CorruptDataError, KafkaWireError, counted
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import BadRecords, ColumnFormat
from spark_kafkawire.records.arrays import Int64s
from spark_kafkawire.records.arrow import BatchBuilder
from spark_kafkawire.records.columns import Columns, validity_bitmap
from spark_kafkawire.records.corrupt import CORRUPT, CORRUPT_TYPE, corrupt_column, projected

from .decoded_messages import MessageDecoder, Messages, TypedTask

_Flags = npt.NDArray[np.bool_]

#: The columns with the ids of schemas, by the columns that have the messages.
SCHEMA_IDS: Final = {"key": "keySchemaId", "value": "valueSchemaId"}
_TO_READ_ON: Final = "to read on, set badRecords=null, which keeps its bytes, or badRecords=drop"


class TypedValues:
    """Record batches of one partition with typed keys and values.

    ``schema`` are the columns that the user reads. ``wanted`` are those of ``Columns`` that they are made
    of.
    """

    def __init__(self, partition: TopicPartition, task: TypedTask, schema: pa.Schema) -> None:
        self._partition, self._schema = partition, schema
        self._bad_records = task.options.bad_records
        self._typed = [
            MessageDecoder(task, column, _type_in(schema, column.column))
            for column in task.options.columns
            if _is_decoded(column, schema.names)
        ]
        made = {name for each in self._typed for name in (each.name, SCHEMA_IDS[each.name])} | {CORRUPT}
        others = pa.schema([each for each in schema if each.name not in made])
        self._others = BatchBuilder(partition, others)
        self.wanted = frozenset(others.names).union(*(each.wanted for each in self._typed))
        self._dropped, self._first = 0, ""

    def build(self, columns: Columns) -> pa.RecordBatch:
        """A batch of these rows, fewer with ``badRecords=drop``.

        Raises ``CorruptDataError`` (fatal) with ``badRecords=fail``, and errors of the registry, which
        were retried.
        """
        if not self._typed and CORRUPT not in self._schema.names:
            return self._others.build(columns)
        found = {each.name: self._decoded(each, columns) for each in self._typed}
        is_bad = np.zeros(columns.count, bool)
        for messages in found.values():
            is_bad |= messages.reason_of >= 0
        if is_bad.any() and self._bad_records is BadRecords.FAIL:
            place = self._place(columns, found, int(np.argmax(is_bad)))
            raise CorruptDataError(f"{place}; {_TO_READ_ON}", int(columns.offset[np.argmax(is_bad)]))
        batch = self._batch(columns, found, is_bad)
        if self._bad_records is BadRecords.DROP and is_bad.any():
            if not self._dropped:
                self._first = self._place(columns, found, int(np.argmax(is_bad)))
            self._dropped += int(is_bad.sum())
            return batch.filter(pa.array(~is_bad))
        return batch

    def report(self) -> None:
        """Log the count of the records that were dropped, and the first of them."""
        if self._dropped:
            LOG.warning(
                "badRecords=drop left out %s of %s, the first: %s",
                counted(self._dropped, "record"),
                self._partition,
                self._first,
            )

    def _decoded(self, column: MessageDecoder, columns: Columns) -> Messages:
        try:
            return column.decoded(columns)
        except KafkaWireError as error:
            raise error.located(f"{self._partition}: {column.name}") from error

    def _place(self, columns: Columns, found: Mapping[str, Messages], row: int) -> str:
        """The place of a bad record, its schema and its reason."""
        name = next(name for name, messages in found.items() if messages.reason_of[row] >= 0)
        schema_id = int(found[name].schema_ids[row])
        of = f" (schema id {schema_id})" if schema_id >= 0 else ""
        offset = f"{self._partition} at offset {columns.offset[row]}"
        reason = found[name].reasons[found[name].reason_of[row]]
        return (
            f"{offset}: the {name} cannot be decoded{of}: {reason}; if every {name} fails, correct "
            f"{name}Format or schemaIdFrom"
        )

    def _batch(self, columns: Columns, found: Mapping[str, Messages], is_bad: _Flags) -> pa.RecordBatch:
        others = self._others.build(columns)
        arrays = []
        for each in self._schema:
            if each.name == CORRUPT:
                arrays.append(
                    projected(_corrupt(columns, found, is_bad), each.type)
                    if is_bad.any()
                    else corrupt_column(columns, each.type)
                )
            elif each.name in found:
                arrays.append(found[each.name].column)
            elif each.name in SCHEMA_IDS.values():
                name = next(name for name, made in SCHEMA_IDS.items() if made == each.name)
                arrays.append(_int32s(found[name].schema_ids))
            else:
                arrays.append(others.column(others.schema.get_field_index(each.name)))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _type_in(schema: pa.Schema, name: str) -> pa.DataType | None:
    return schema.field(name).type if name in schema.names else None


def _is_decoded(column: ColumnFormat, names: list[str]) -> bool:
    return (column.column in names and column.format != "binary") or (
        column.has_schemas and SCHEMA_IDS[column.column] in names
    )


def _corrupt(columns: Columns, found: Mapping[str, Messages], is_bad: _Flags) -> pa.StructArray:
    """The column ``_corrupt_record``: the bad message of each row, the value before the key."""
    count, raws = len(is_bad), []
    places, ids = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    kinds = np.full((len(found), count), -1, np.int64)
    for index, messages in enumerate(found.values()):  # the value is the last one
        rows = np.flatnonzero(messages.reason_of >= 0)
        places[rows], ids[rows] = rows + index * count, messages.schema_ids[rows]
        kinds[index] = messages.reason_of
        raws.append(messages.raw)
    distinct, which = np.unique(kinds, axis=1, return_inverse=True)
    reasons = pa.array([_reasons(found, each) for each in distinct.T.tolist()], pa.string())
    children = [
        pa.concat_arrays(raws).take(pa.array(places, mask=~is_bad)),
        reasons.take(pa.array(which.ravel(), mask=~is_bad)),
        _int32s(ids),
        pa.array(columns.offset),
        pa.array(columns.offset + 1 if columns.next_offset is None else columns.next_offset),
    ]
    return pa.Array.from_buffers(CORRUPT_TYPE, count, [validity_bitmap(is_bad)], children=children)


def _reasons(found: Mapping[str, Messages], kinds: list[int]) -> str:
    named = zip(found.items(), kinds, strict=True)
    each = [f"{name}: {messages.reasons[kind]}" for (name, messages), kind in named if kind >= 0]
    return "; ".join(reversed(each))


def _int32s(numbers: Int64s) -> pa.Array:
    """Ids as a column, null where they are not known."""
    return pa.array(numbers.astype(np.int32), pa.int32(), mask=numbers < 0)
