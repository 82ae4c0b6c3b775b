"""Names of column types, as Spark writes them: errors show these, because a reader casts to them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

_NAMES: Final = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
    pa.large_string(): "STRING",
    pa.binary(): "BINARY",
    pa.large_binary(): "BINARY",
    pa.date32(): "DATE",
    pa.null(): "VOID",
}


def sql_name(of: pa.DataType) -> str:
    """The SQL name of the Spark type. A type that Spark does not have keeps its name in Arrow."""
    if pa.types.is_timestamp(of):
        return "TIMESTAMP_NTZ" if of.tz is None else "TIMESTAMP"
    if pa.types.is_duration(of):
        return "INTERVAL DAY TO SECOND"
    if pa.types.is_decimal(of):
        return f"DECIMAL({of.precision},{of.scale})"
    if pa.types.is_map(of):
        return f"MAP<{sql_name(of.key_type)}, {sql_name(of.item_type)}>"
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        return f"ARRAY<{sql_name(of.value_type)}>"
    if pa.types.is_struct(of):
        return f"STRUCT<{', '.join(f'{each.name}: {sql_name(each.type)}' for each in of)}>"
    return _NAMES.get(of, str(of))
