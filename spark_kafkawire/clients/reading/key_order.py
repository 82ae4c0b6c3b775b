"""Key order (option ``keyOrder``) in a read task of modern Kafka: the layout of each row, and a check of
keys.

A layout is the time in which the topic had one number of partitions. The check compares the partition of each
record with the one that its key has in the layout. A task of a Python source can return only rows or an
error, and few users read its log. So an error reports keys without an order, unless the user selects the
column ``misplaced``, from which a query counts and shows them exactly (``misplaced_report``). Each task also
writes a line to its log.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from spark_kafkawire.errors import LOG, OptionError, counted
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import PartitionerCheck
from spark_kafkawire.records.columns import Columns
from spark_kafkawire.records.key_hashes import (
    EARLY,
    EXPECTED,
    LATE,
    UNEXPLAINED,
    by_key,
    by_offset,
    positive_hashes,
)

from .task import PartitionLayouts

#: The values of the column ``misplaced``, in the order of the kinds.
MISPLACED: Final = pa.array([None, "late", "early", "unexplained"], pa.string())
_CAUSES: Final = {
    LATE: "an earlier count of partitions placed them there, after the boundary",
    EARLY: "a later count of partitions placed them there, before the boundary, which is too late: "
    "give an earlier one",
    UNEXPLAINED: "no count of partitionLayouts places their keys there by murmur2: another partitioner did, "
    "or a layout is missing",
}
#: Effects on the order of keys.
_EFFECTS: Final = {
    LATE: "later records of their keys may have been read already",
    EARLY: "keys that came back to the partition may be out of order",
    UNEXPLAINED: "their keys are in no order",
}
#: Fewest layouts in which a key can return to a partition.
_LAYOUTS_OF_RETURN: Final = 3


class LayoutsOfRows:
    """Layouts of the rows of one task, in their order."""

    def __init__(self, partition: TopicPartition, layouts: PartitionLayouts) -> None:
        self._topic_partition, self._layouts = partition, layouts
        spoils = {LATE: layouts.is_late_a_fault, EARLY: len(layouts.counts) >= _LAYOUTS_OF_RETURN}
        self._faults = {kind for kind in _EFFECTS if spoils.get(kind, True)}
        self._counts: Counter[int] = Counter()
        self._first: dict[int, int] = {}

    @property
    def wanted(self) -> frozenset[str]:
        """The columns that the check needs."""
        return frozenset(() if self._layouts.check is PartitionerCheck.NONE else ("key",))

    def mark_layouts(self, columns: Columns) -> Columns:
        """The same rows with their layouts. Raises ``OptionError`` (fatal) for keys that have no order."""
        layouts = by_offset(columns.offset, self._layouts.first, self._layouts.boundaries)
        if columns.keys is None or self._layouts.check is PartitionerCheck.NONE:
            return replace(columns, layouts=layouts)
        keyed = columns.keys.is_valid().to_numpy(zero_copy_only=False)
        hashes, partition = positive_hashes(columns.keys), self._topic_partition.partition
        layouts, kinds = by_key(hashes, keyed, layouts, partition, self._layouts.counts)
        if not kinds.any():
            return replace(columns, layouts=layouts)
        for kind, count in enumerate(np.bincount(kinds).tolist()):
            if kind != EXPECTED and count:
                self._counts[kind] += count
                self._first.setdefault(kind, int(columns.offset[np.argmax(kinds == kind)]))
        faults = self._faults & self._counts.keys()
        if faults and self._layouts.check is PartitionerCheck.STRICT:
            raise OptionError(
                f"option verifyPartitioner: so far {self._what(max(faults))}; {_EFFECTS[max(faults)]}: set "
                "it to true to continue and mark them in the column misplaced, or to false to trust only the "
                "offsets in partitionLayouts"
            )
        return replace(columns, layouts=layouts, misplaced=MISPLACED.take(pa.array(kinds)))

    def report(self) -> None:
        """Log the records that were found: as a warning, unless their keys are in order nevertheless."""
        is_kept = self._counts.keys().isdisjoint(self._faults)
        level = logging.INFO if is_kept else logging.WARNING
        if self._counts:
            LOG.log(level, "option keyOrder: %s", "; ".join(map(self._what, sorted(self._counts))))

    def _what(self, kind: int) -> str:
        records = f"{counted(self._counts[kind], 'record')}, the first at offset {self._first[kind]}"
        return f"{self._topic_partition}: {records}: {_CAUSES[kind]}"
