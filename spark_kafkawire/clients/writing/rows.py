"""The rows of one batch to write: what is stored, and what chooses where."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ...errors import RowError
from ...records.rows import Records


@dataclass(frozen=True, slots=True, repr=False)
class Rows:
    """Columns of equal length; the arrays belong to the batch they came in. Its repr shows no payload.

    ``records`` is what is stored. ``topic`` is one name for all rows or a string column, ``keys``
    are binary, ``brokers`` and ``partitions`` int32. In the last three a null, like a missing
    column, leaves the choice to what comes after.
    """

    records: Records
    topic: str | pa.Array
    keys: pa.Array | None = None
    brokers: pa.Array | None = None
    partitions: pa.Array | None = None

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.records.count

    def refuse_null_topics(self) -> None:
        """Raises ``RowError`` (fatal) naming the first row without a topic, counted from 0."""
        if not isinstance(self.topic, str):
            refuse_nulls("topic", self.topic, "fill it, or set the option topic")

    def refuse_broken_topics(self) -> None:
        """Raises ``RowError`` (fatal) naming the first row whose topic is no text, counted from 0."""
        if not isinstance(self.topic, str) and not is_text(self.topic):
            row = next(row for row in range(self.count) if not is_text(self.topic.slice(row, 1)))
            raise RowError(f"row {row}: topic is not UTF-8; correct it, or set the option topic")


def refuse_nulls(name: str, column: pa.Array, advice: str) -> None:
    """Raises ``RowError`` (fatal) naming the first null of a column, counted from 0."""
    if column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise RowError(f"row {row}: {name} is null; {advice}")


def is_text(column: pa.Array) -> bool:
    """Whether all strings of a column are UTF-8: Spark's may be any bytes, and Arrow trusts it."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
