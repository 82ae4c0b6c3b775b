"""The column ``_corrupt_record``: the bytes that could not become a row, and the reason."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from .columns import Columns

CORRUPT: Final = "_corrupt_record"
#: Type of the column. The offsets are those that the bytes had: one, or all of a damaged place.
CORRUPT_TYPE: Final = pa.struct(
    [
        ("bytes", pa.binary()),
        ("reason", pa.string()),
        ("schemaId", pa.int32()),
        ("startOffset", pa.int64()),
        ("endOffset", pa.int64()),
    ]
)


def is_corrupt_type(of: pa.DataType) -> bool:
    """True if this type has some of the fields of ``CORRUPT_TYPE``."""
    if not pa.types.is_struct(of) or not of.num_fields:
        return False
    known = {field.name: field.type for field in CORRUPT_TYPE}
    return all(known.get(field.name) == field.type for field in of)


def corrupt_column(columns: Columns, of: pa.DataType) -> pa.Array:
    """The column of these rows, with the fields of a type."""
    return pa.nulls(columns.count, of) if columns.corrupt is None else projected(columns.corrupt, of)


def projected(corrupt: pa.StructArray, of: pa.DataType) -> pa.Array:
    """The column with the fields of a type that ``is_corrupt_type``."""
    if of == corrupt.type:
        return corrupt
    fields = list(of)
    return pa.StructArray.from_arrays(
        [corrupt.field(field.name) for field in fields], fields=fields, mask=corrupt.is_null()
    )


def damaged_row(start_offset: int, stop_offset: int, data: bytes, reason: str) -> Columns:
    """The row of a damaged place, which has these offsets: all its other columns are null."""
    record = {
        "bytes": data,
        "reason": reason,
        "schemaId": None,
        "startOffset": start_offset,
        "endOffset": stop_offset,
    }
    return Columns(
        np.array([start_offset]),
        index=np.zeros(1, np.int32),
        next_offset=np.array([stop_offset]),
        values=pa.nulls(1, pa.binary()),
        corrupt=pa.array([record], CORRUPT_TYPE),
    )
