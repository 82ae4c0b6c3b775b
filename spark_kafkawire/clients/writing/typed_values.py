"""Keys and values of rows as messages of a format: each column is encoded with the schema of its write.

    typed column ─ encode ─► messages ─ frame on ─► binary column
                                     └ or a header of each record

Null stays null: it is a tombstone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafkawire.records.columns import HEADER, HEADERS, header_lists, header_pairs
from spark_kafkawire.values.formats import FORMATS, Encoder, FixedSchema
from spark_kafkawire.values.registry_frame import SCHEMA_HEADERS


@dataclass(frozen=True, slots=True)
class ColumnEncoding:
    """Encoding of keys or of values with one schema, fixed when the write is planned. Plain data.

    ``frame`` names the schema: it goes in front of each message, or into a header with ``in_header``. It is
    empty for messages without a schema id.
    """

    column: str
    format: str
    schema: FixedSchema
    frame: bytes = b""
    in_header: bool = False


class TypedRows:
    """Encoders of the batches of one task."""

    def __init__(self, encodings: Sequence[ColumnEncoding]) -> None:
        self._encodings = encodings
        self._encoders: dict[tuple[str, pa.DataType], Encoder] = {}

    def encoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with binary columns in the place of typed ones, and with the headers of their schemas.

        Raises ``RowError`` (fatal) for a value that its schema does not allow, with its row, counted from 0,
        and its field.
        """
        for item in self._encodings:
            index = batch.schema.get_field_index(item.column)
            key = item.column, batch.column(index).type
            if key not in self._encoders:
                self._encoders[key] = encoder_of(item.format, item.schema, key[1])
            messages = self._encoders[key].encode(batch.column(index))
            if item.frame and not item.in_header:
                messages = pc.binary_join_element_wise(pa.scalar(item.frame), messages, b"")
            batch = _with_column(batch, item.column, messages)
            if item.in_header:
                batch = _with_header(batch, SCHEMA_HEADERS[item.column], item.frame, messages.is_valid())
        return batch


def encoder_of(name: str, schema: FixedSchema, arrow_type: pa.DataType) -> Encoder:
    """An encoder of a column. Raises ``OptionError`` (fatal) for a schema that its type does not fit."""
    form = FORMATS[name]
    return form.encoder(form.parsed(schema), arrow_type)


def _with_header(batch: pa.RecordBatch, name: str, value: bytes, wanted: pa.BooleanArray) -> pa.RecordBatch:
    """The batch with a header behind those of each wanted row."""
    index = batch.schema.get_field_index("headers")
    given = batch.column(index) if index >= 0 else pa.nulls(len(wanted), HEADERS)
    pairs, bounds = header_pairs(header_lists(given))
    added = np.asarray(wanted).astype(np.int64)
    stops = np.append(0, np.cumsum(np.diff(bounds) + added))
    # The new header is the last one of the pairs below.
    places = np.full(stops[-1], len(pairs), np.int64)
    shifts = np.repeat(np.cumsum(added) - added, np.diff(bounds))
    places[np.arange(len(pairs)) + shifts] = np.arange(len(pairs))
    new = pa.array([{"key": name, "value": value}], HEADER)
    headers = pa.ListArray.from_arrays(
        pa.array(stops, pa.int32()), pa.concat_arrays([pairs, new]).take(pa.array(places))
    ).cast(HEADERS)
    return _with_column(batch, "headers", headers)


def _with_column(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    """The batch with a column in the place of the one of this name, or as its last one. ``set_column`` of
    a batch needs pyarrow 15."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True)) | {name: column}
    return pa.RecordBatch.from_arrays([*columns.values()], [*columns])
