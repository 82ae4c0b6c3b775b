"""Tables of a cluster, such as ``partitions`` and ``group_offsets``, and of log directories, as Arrow
columns; without Spark. A function sends only the requests that the wanted columns need.

A ``Table`` declares columns with types and meanings, and the source of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ..model import Generation
from ..options import Selection

if TYPE_CHECKING:
    from .scan import Scan


#: Values of columns of the table. Those that a row lacks, or that are not wanted, are null.
Row = Mapping[str, Any]
Rows = Callable[["Scan"], Iterable[Row]]

#: Options that choose rows, as ``Table.takes`` names them.
TOPICS: Final = (Selection.topics.name, Selection.topic_pattern.name)
GROUPS: Final = (Selection.group_id.name,)

INT: Final = pa.int32()
LONG: Final = pa.int64()
TEXT: Final = pa.string()
FLAG: Final = pa.bool_()
TIME: Final = pa.timestamp("us", "UTC")
INTS: Final = pa.list_(pa.int32())
PARTITIONS: Final = pa.list_(pa.struct([("topic", pa.string()), ("partition", pa.int32())]))


@dataclass(frozen=True, slots=True)
class Column:
    """A column; ``meaning`` is its text in the documentation."""

    name: str
    type: pa.DataType
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table. ``rows`` has a function for each generation of brokers that knows the table, none if it is
    of log directories, and ``takes`` the options that choose rows of it."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    rows: Mapping[Generation, Rows]
    takes: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(column.name, column.type) for column in self.columns])


def us_of(time_ms: int) -> int | None:
    """Microseconds since 1970 of a time that brokers give in milliseconds, -1 for none."""
    return None if time_ms < 0 else 1000 * time_ms
