"""Typed keys and values: messages of a column, decoded by the schemas that they were written with.

    raw column ─ frames off ─► payloads by schema ─ one decoder each ─► typed column, in the records' order
                                                                     └► reasons of those without a value

Messages of one schema are decoded together. A schema is requested from the registry once in a process. A
registry that does not answer is an error of the task and never a fault of a message. ``badRecords`` says what
becomes of messages without a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_kafkawire.errors import (
    LOG,
    CorruptDataError,
    KafkaWireError,
    OptionError,
    UnknownSchemaError,
    counted,
    printable,
)
from spark_kafkawire.kept import Kept
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import BadRecords, ColumnFormat, TypedOptions
from spark_kafkawire.records.arrays import Int32s, Int64s
from spark_kafkawire.records.arrow import CORRUPT, CORRUPT_TYPE, BatchBuilder, corrupt_column, project
from spark_kafkawire.records.columns import Columns, validity_bitmap
from spark_kafkawire.registry import registry_of
from spark_kafkawire.values.formats import FORMATS, Decoder, FixedSchema, Format, Schema
from spark_kafkawire.values.payloads import Decoded, Fault, join_parts
from spark_kafkawire.values.registry_frame import SCHEMA_HEADERS, Framed, SchemaIdSource, unframe

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
        self._partition, self._schema, names = partition, schema, schema.names
        self._bad_records = task.options.bad_records
        self._typed = [
            MessageDecoder(task, item, schema.field(item.column).type if item.column in names else None)
            for item in task.options.columns
            if (item.column in names and item.format != "binary")
            or (item.has_schemas and SCHEMA_IDS[item.column] in names)
        ]
        made = {name for item in self._typed for name in (item.name, SCHEMA_IDS[item.name])} | {CORRUPT}
        others = pa.schema([item for item in schema if item.name not in made])
        self._others = BatchBuilder(partition, others)
        self.wanted = frozenset(others.names).union(*(item.wanted for item in self._typed))
        self._dropped, self._first = 0, ""

    def build(self, columns: Columns) -> pa.RecordBatch:
        """A batch of these rows, fewer with ``badRecords=drop``.

        Raises ``CorruptDataError`` (fatal) with ``badRecords=fail``, and errors of the registry, which
        were retried.
        """
        if not self._typed and CORRUPT not in self._schema.names:
            return self._others.build(columns)
        result: dict[str, Messages] = {}
        is_bad = np.zeros(columns.count, bool)
        for column in self._typed:
            try:
                result[column.name] = column.decode(columns)
            except KafkaWireError as error:
                raise error.locate(f"{self._partition}: {column.name}") from error
            is_bad |= result[column.name].reason_of >= 0
        if not is_bad.any():
            return self._batch(columns, result, is_bad)
        first = int(np.argmax(is_bad))
        if self._bad_records is BadRecords.FAIL:
            place = self._place(columns, result, first)
            raise CorruptDataError(f"{place}; {_TO_READ_ON}", int(columns.offset[first]))
        batch = self._batch(columns, result, is_bad)
        if self._bad_records is not BadRecords.DROP:
            return batch
        if not self._dropped:
            self._first = self._place(columns, result, first)
        self._dropped += int(is_bad.sum())
        return batch.filter(pa.array(~is_bad))

    def report(self) -> None:
        """Log the count of the records that were dropped, and the first of them."""
        if self._dropped:
            LOG.warning(
                "badRecords=drop left out %s of %s, the first: %s",
                counted(self._dropped, "record"),
                self._partition,
                self._first,
            )

    def _place(self, columns: Columns, result: Mapping[str, Messages], row: int) -> str:
        """The place of a bad record, its schema and its reason."""
        name = next(name for name, messages in result.items() if messages.reason_of[row] >= 0)
        schema_id = int(result[name].schema_ids[row])
        of = f" (schema id {schema_id})" if schema_id >= 0 else ""
        offset = f"{self._partition} at offset {columns.offset[row]}"
        reason = result[name].reasons[result[name].reason_of[row]]
        return (
            f"{offset}: the {name} cannot be decoded{of}: {reason}; if every {name} fails, correct "
            f"{name}Format or schemaIdFrom"
        )

    def _batch(self, columns: Columns, result: Mapping[str, Messages], is_bad: _Flags) -> pa.RecordBatch:
        others = self._others.build(columns)
        arrays = dict(zip(others.schema.names, others.columns, strict=True))
        for name, messages in result.items():
            arrays[name] = messages.column
            if SCHEMA_IDS[name] in self._schema.names:
                arrays[SCHEMA_IDS[name]] = _int32s(messages.schema_ids)
        if CORRUPT in self._schema.names:
            kind = self._schema.field(CORRUPT).type
            arrays[CORRUPT] = (
                project(_corrupt(columns, result, is_bad), kind)
                if is_bad.any()
                else corrupt_column(columns, kind)
            )
        return pa.RecordBatch.from_arrays([arrays[name] for name in self._schema.names], schema=self._schema)


def _corrupt(columns: Columns, result: Mapping[str, Messages], is_bad: _Flags) -> pa.StructArray:
    """The column ``_corrupt_record``: the bad message of each row, the value before the key."""
    count, raws = len(is_bad), []
    places, ids = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    kinds = np.full((len(result), count), -1, np.int64)
    for index, messages in enumerate(result.values()):  # the value is the last one
        rows = np.flatnonzero(messages.reason_of >= 0)
        places[rows], ids[rows] = rows + index * count, messages.schema_ids[rows]
        kinds[index] = messages.reason_of
        raws.append(messages.raw)
    distinct, which = np.unique(kinds, axis=1, return_inverse=True)
    reasons = pa.array([_reasons(result, item) for item in distinct.T.tolist()], pa.string())
    children = [
        pa.concat_arrays(raws).take(pa.array(places, mask=~is_bad)),
        reasons.take(pa.array(which.ravel(), mask=~is_bad)),
        _int32s(ids),
        pa.array(columns.offset),
        pa.array(columns.offset + 1 if columns.next_offset is None else columns.next_offset),
    ]
    return pa.Array.from_buffers(CORRUPT_TYPE, count, [validity_bitmap(is_bad)], children=children)


def _reasons(result: Mapping[str, Messages], kinds: list[int]) -> str:
    named = zip(result.items(), kinds, strict=True)
    item = [f"{name}: {messages.reasons[kind]}" for (name, messages), kind in named if kind >= 0]
    return "; ".join(reversed(item))


def _int32s(numbers: Int64s) -> pa.Array:
    """Ids as a column, null where they are not known."""
    return pa.array(numbers.astype(np.int32), pa.int32(), mask=numbers < 0)


#: Decoders that a process keeps, the newest ones.
DECODERS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class TypedTask:
    """Formats and schemas of keys and values, for the tasks of a read. Plain data.

    ``schemas`` are those to which all messages are resolved, by column. Without one, messages are resolved
    to the type of the column by the names of its fields.
    """

    options: TypedOptions
    schemas: Mapping[str, FixedSchema] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _SchemaKey:
    """The schema of a message: its id, its GUID, or neither. ``indexes`` are those of a type of Protobuf."""

    schema_id: int = -1
    guid: bytes = b""
    indexes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Decoding:
    """A decoder of one schema, or the reason why there is none. ``schema_id`` is -1 where it is unknown."""

    decoder: Decoder | None
    schema_id: int = -1
    reason: str = ""


@dataclass(slots=True)
class Messages:
    """The messages of one column. ``reason_of`` has, for each row, the index of its reason in ``reasons``; -1
    for a row without a fault."""

    raw: pa.BinaryArray
    column: pa.Array
    schema_ids: Int64s
    reason_of: Int32s
    reasons: list[str] = field(default_factory=list)

    def blame(self, rows: Int64s, reason: str) -> None:
        """Give the rows a reason."""
        if len(rows):
            self.reason_of[rows] = len(self.reasons)
            self.reasons.append(reason)


class MessageDecoder:
    """Decoder of the messages of one column to a type; None where only the ids of schemas are read."""

    def __init__(self, task: TypedTask, column: ColumnFormat, arrow_type: pa.DataType | None) -> None:
        self.name = column.column
        self._column, self._options = column, task.options
        self._fixed = task.schemas.get(column.column)
        self._format = FORMATS.get(column.format)
        self._type = arrow_type
        self._source = SchemaIdSource(task.options.schema_id_from)

    @property
    def wanted(self) -> frozenset[str]:
        """The columns of records that it needs."""
        has_ids_in_headers = self._source in (SchemaIdSource.AUTO, SchemaIdSource.HEADER)
        return frozenset((self.name, "headers") if self._format and has_ids_in_headers else (self.name,))

    def decode(self, columns: Columns) -> Messages:
        """The messages of these rows. Raises the errors of the registry, after its retries."""
        raw = columns.values if self.name == "value" else columns.keys
        if raw is None:
            raw = pa.nulls(columns.count, pa.binary())
        return self.messages(raw, columns.headers)

    def messages(self, raw: pa.BinaryArray, headers: pa.Array | None = None) -> Messages:
        """The messages of a column, and the headers of its records. Raises as ``decode`` does."""
        if self._format is None:
            return _strings(raw)
        with_indexes = self._format.has_indexes
        frames = unframe(
            raw, self._source, headers, header=SCHEMA_HEADERS[self.name], with_indexes=with_indexes
        )
        result = Messages(raw, None, frames.ids.copy(), np.full(len(raw), -1, np.int32))
        for fault in np.unique(frames.faults[frames.faults != Fault.NONE]).tolist():
            result.blame(np.flatnonzero(frames.faults == fault), Fault(fault).reason)
        if self._type is not None:
            self._decode(self._format, frames, result)
        return result

    def _decode(self, form: Format, frames: Framed, result: Messages) -> None:
        """Decode the messages of each schema together, and restore their order.

        Where a bad record is an error, no schema is requested after the first one that is not there: foreign
        bytes may name any number of them.
        """
        is_error = self._options.bad_records is BadRecords.FAIL
        groups = _group_by_schema(frames, form.needs_writer)
        parts: list[tuple[pa.Array, Int64s]] = []
        for rows, key in groups:
            decoding = self._decoding(form, key)
            if decoding.schema_id >= 0:
                result.schema_ids[rows] = decoding.schema_id
            if decoding.decoder is None:
                result.blame(rows, decoding.reason)
                if is_error:
                    break
                continue
            payloads = frames.payloads
            if len(groups) == 1:  # nulls among the messages are no matter
                rows = np.arange(len(payloads))
            else:
                payloads = payloads.taken(rows)
            decoded = decoding.decoder.decode(payloads)
            parts.append((decoded.column, rows))
            _blame_each(result, rows, decoded)
        count = len(frames.ids)
        result.column = join_parts(parts, count) if parts else pa.nulls(count, self._type)

    def _decoding(self, form: Format, key: _SchemaKey) -> _Decoding:
        """The decoder of the messages of one schema, kept for the process."""
        options = self._options.registry, self._options.ends_on_new_fields
        kept = (*options, self._column, self._fixed, self._type, key)
        if (known := _DECODINGS.get(kept)) is not None:
            return known
        try:
            result = self._new_decoding(form, key)
        except UnknownSchemaError:  # the registry keeps that for some time itself
            return _Decoding(None, key.schema_id, Fault.UNKNOWN_SCHEMA_ID.reason)
        return _DECODINGS.keep(kept, result)

    def _new_decoding(self, form: Format, key: _SchemaKey) -> _Decoding:
        reader = None if self._fixed is None else form.parsed(self._fixed)
        arguments = () if key.indexes is None else (key.indexes,)
        if key.schema_id < 0 and not key.guid:
            writer = reader if form.needs_writer else None
            return _Decoding(form.decoder(writer, reader, self._type, *arguments))
        assert self._options.registry is not None
        registry = registry_of(self._options.registry)
        registered = (
            registry.schema_of_guid(key.guid)
            if key.guid
            else registry.schema(key.schema_id, self._column.subject)
        )
        schema_id = key.schema_id if key.schema_id >= 0 else registered.id
        if registered.format != form.registered_as:
            return _unresolvable(schema_id, f"it is {registered.format}, and not {form.registered_as}")
        try:
            writer = form.parse(registered.text, registered.references)
        except OptionError as error:
            return _unresolvable(schema_id, str(error))
        self._check_evolution(form, writer, reader, schema_id)
        try:
            return _Decoding(form.decoder(writer, reader, self._type, *arguments), schema_id)
        except OptionError as error:
            return _unresolvable(schema_id, str(error))

    def _check_evolution(self, form: Format, writer: Schema, reader: Schema | None, schema_id: int) -> None:
        """Raise ``OptionError`` (fatal) if the query is to end because a later schema has a new field."""
        if not self._options.ends_on_new_fields or form.new_field is None or self._fixed is None:
            return
        is_later = schema_id < 0 or self._fixed.schema_id < 0 or schema_id > self._fixed.schema_id
        if is_later and (name := form.new_field(writer, reader)) is not None:
            raise OptionError(
                f"schema id {schema_id} has the field {printable(name)}, which {self._fixed.origin} of this "
                "query lacks; load it and start it again, to take the new schema "
                "(avroSchemaEvolutionMode=restart)"
            )


_DECODINGS: Final = Kept[tuple[object, ...], _Decoding](DECODERS_MAX)


def _unresolvable(schema_id: int, problem: str) -> _Decoding:
    return _Decoding(None, schema_id, f"{Fault.UNRESOLVABLE_SCHEMA.reason}: {problem}")


def _group_by_schema(frames: Framed, needs_writer: bool) -> list[tuple[Int64s, _SchemaKey]]:
    """The rows of the messages of each schema, in the order of their first rows; of all messages in one if
    they are decoded without the schemas of their writers. Tombstones, and messages without a schema id, are
    in none."""
    rows = np.flatnonzero(~frames.payloads.is_null).astype(np.int64)
    if not len(rows):
        return []
    if not needs_writer:
        return [(rows, _SchemaKey())]
    # GUIDs are numbered below all ids.
    schemas = np.where(frames.guid_of >= 0, -2 - frames.guid_of, frames.ids)[rows]
    kinds = schemas * (len(frames.indexes) + 1) + frames.indexes_of[rows]
    if (kinds == kinds[0]).all():
        return [(rows, _key(frames, int(rows[0])))]
    _, which, counts = np.unique(kinds, return_inverse=True, return_counts=True)
    groups = np.split(rows[np.argsort(which.ravel(), kind="stable")], np.cumsum(counts)[:-1])
    return [(group, _key(frames, int(group[0]))) for group in sorted(groups, key=lambda group: int(group[0]))]


def _key(frames: Framed, row: int) -> _SchemaKey:
    guid, indexes = int(frames.guid_of[row]), int(frames.indexes_of[row])
    return _SchemaKey(
        int(frames.ids[row]),
        frames.guids[guid] if guid >= 0 else b"",
        frames.indexes[indexes] if indexes >= 0 else None,
    )


def _blame_each(result: Messages, rows: Int64s, decoded: Decoded) -> None:
    """Give each row with a fault its reason, once for all rows of the same fault and field."""
    bad = np.flatnonzero(decoded.faults)
    if not len(bad):
        return
    kinds = np.stack((decoded.faults[bad].astype(np.int64), decoded.fields[bad]))
    distinct, which = np.unique(kinds, axis=1, return_inverse=True)
    result.reason_of[rows[bad]] = len(result.reasons) + which.ravel()
    for fault, path in distinct.T.tolist():
        location = f"field {printable(decoded.paths[path])}: " if path >= 0 else ""
        result.reasons.append(f"{location}{Fault(fault).reason}")


def _strings(raw: pa.BinaryArray) -> Messages:
    """Messages as text. Arrow trusts that strings are UTF-8, so that is checked here."""
    strings = raw.view(pa.string())
    result = Messages(raw, strings, np.full(len(raw), -1, np.int64), np.full(len(raw), -1, np.int32))
    bad = np.array(_not_utf8(strings, 0, len(strings)), np.int64)
    if len(bad):
        result.blame(bad, Fault.BAD_UTF8.reason)
        places = np.arange(len(raw))
        result.column = strings.take(pa.array(places, mask=result.reason_of >= 0))
    return result


def _not_utf8(strings: pa.StringArray, start: int, stop: int) -> list[int]:
    """The rows that are not UTF-8, by halves: few of many are."""
    try:
        strings[start:stop].validate(full=True)
    except pa.ArrowInvalid:
        if stop - start == 1:
            return [start]
        middle = (start + stop) // 2
        return _not_utf8(strings, start, middle) + _not_utf8(strings, middle, stop)
    return []
