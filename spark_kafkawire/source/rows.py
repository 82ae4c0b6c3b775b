"""Arrow batches as Spark hands them to a task that writes, as the rows that the clients take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import pyarrow as pa

from ..clients.writing.rows import Rows
from ..records.rows import Records


def to_rows(batch: pa.RecordBatch, topic: str | None, stored: frozenset[str]) -> Rows:
    """The batch's columns as the clients take them; ``topic`` beats the column of that name."""
    columns = {name: _CASTS[name](batch.column(name)) for name in batch.schema.names if name in _CASTS}
    contents = {name: column for name, column in columns.items() if name in stored}
    return Rows(
        records=Records(
            values=contents["value"],
            keys=contents.get("key"),
            headers=contents.get("headers"),
            timestamps_ms=contents.get("timestamp"),
        ),
        topic=topic if topic is not None else columns["topic"],
        keys=columns.get("key"),
        brokers=columns.get("broker"),
        partitions=columns.get("partition"),
    )


def _milliseconds(column: pa.Array) -> pa.Array:
    """int64; microseconds are cut off. Arrow's own rounding would go by local time, where some
    times are there twice."""
    return column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())


def _of_type(column: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    # A cast that changes nothing takes as long as one that does.
    return column if column.type == arrow_type else column.cast(arrow_type)


_CASTS: Final[Mapping[str, Callable[[pa.Array], pa.Array]]] = MappingProxyType(
    {
        "key": lambda column: _of_type(column, pa.binary()),
        "value": lambda column: _of_type(column, pa.binary()),
        "headers": lambda column: column,
        "timestamp": _milliseconds,
        "topic": lambda column: _of_type(column, pa.string()),
        "partition": lambda column: column,
        "broker": lambda column: column,
    }
)
