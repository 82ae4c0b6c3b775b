"""Names of column types, as Spark writes them: errors show these, because a reader casts to them; types that
have a large form in Arrow; and paths of columns.
"""

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
    if is_list(of):
        return f"ARRAY<{sql_name(of.value_type)}>"
    if pa.types.is_struct(of):
        return f"STRUCT<{', '.join(f'{each.name}: {sql_name(each.type)}' for each in of)}>"
    return _NAMES.get(of, str(of))


def is_text(of: pa.DataType) -> bool:
    """True for strings."""
    return bool(pa.types.is_string(of) or pa.types.is_large_string(of))


def is_binary(of: pa.DataType) -> bool:
    """True for bytes of any size."""
    return bool(pa.types.is_binary(of) or pa.types.is_large_binary(of))


def is_list(of: pa.DataType) -> bool:
    """True for arrays."""
    return bool(pa.types.is_list(of) or pa.types.is_large_list(of))


def inside(path: str, name: str) -> str:
    """The path of a column in the struct at ``path``, which is empty for the outermost one."""
    return f"{path}.{name}" if path else name
