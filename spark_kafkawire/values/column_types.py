"""Types of columns: their names in Spark, which errors show, because a reader casts to them; those with a
large form in Arrow; paths of columns; and limits of a schema whose types may contain themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_kafkawire.errors import OptionError

#: How often a type may be inside of itself, the outer one included, before the field is dropped: Spark's
#: ``recursiveFieldMaxDepth`` and ``recursive.fields.max.depth``. A depth below 1 refuses such types.
RECURSION_DEPTH: Final = 3
#: Columns that a schema may have, nested ones included: in a hostile schema each level doubles them.
COLUMNS_MAX: Final = 20_000
#: Digits of a decimal in Spark.
PRECISION_MAX: Final = 38
#: Advice in the error for a recursive schema.
_DEPTH_ADVICE: Final = "set recursiveFieldMaxDepth to 1 or more, or leave that field out of the schema"

#: Numbers in Arrow's buffers that are not int64.
_DTYPES: Final[dict[pa.DataType, Any]] = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.date32(): np.int32,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
}
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
        return f"STRUCT<{', '.join(f'{item.name}: {sql_name(item.type)}' for item in of)}>"
    return _NAMES.get(of, str(of))


def dtype_of(of: pa.DataType) -> Any:
    """The type of a column's numbers in its buffer."""
    return _DTYPES.get(of, np.int64)


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


@dataclass(slots=True)
class Nesting:
    """The columns of a schema of a format that were counted so far."""

    schema: str
    recursion_depth: int
    count: int = 0

    def add(self) -> None:
        """Count a column. Raises ``OptionError`` (fatal) if there are too many."""
        self.count += 1
        if self.count > COLUMNS_MAX:
            raise OptionError(f"{self.schema} has more than {COLUMNS_MAX} columns: remove fields from it")

    def inside(self, name: str, title: str, depths: Mapping[str, int]) -> Mapping[str, int] | None:
        """The count of each type around a field of this one; None if the type contains itself too often."""
        depth = depths.get(name, 0)
        if depth and self.recursion_depth < 1:
            raise OptionError(f"{title} contains itself: {_DEPTH_ADVICE}")
        return None if depth >= max(1, self.recursion_depth) else {**depths, name: depth + 1}
