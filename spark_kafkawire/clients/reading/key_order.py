"""Gives the rows of a task their epochs, and checks the partitions of their keys.

    epochs = EpochsOfRows(task.range.log, task.epochs)
    for columns in fetcher.columns():
        yield epochs.marked(columns)
    epochs.tell()

What Spark lets a task of a Python source say: rows, an error, and its log, which nobody reads. So an error
tells of keys that have no order, unless the user asks for the column ``stray``, from which a query counts
them exactly and shows them (``stray_report``). The log has a line for each task besides.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from ...errors import OptionError
from ...model import TopicPartition
from ...options import PartitionerCheck
from ...records.arrays import Int32s, Uint8s
from ...records.columns import Columns
from ...records.key_epochs import EARLY, EXPECTED, LATE, UNEXPLAINED, by_key, by_offset
from ...records.murmur2 import positive_hashes
from .log_epochs import LogEpochs

_log = logging.getLogger("spark_kafkawire")

#: The values of the column ``stray``, in the order of the kinds.
STRAYS: Final = pa.array([None, "late", "early", "unexplained"], pa.string())
_TOLD: Final = {
    LATE: "an earlier count of partitions has put them there, after the boundary",
    EARLY: "a later count of partitions has put them there, before the boundary, which was taken too late: "
    "give an earlier one",
    UNEXPLAINED: "no count of partitionEpochs puts their keys there by murmur2: another partitioner has, or "
    "an epoch is missing",
}
#: What that does to the order of keys, where it does something.
_SPOILED: Final = {
    LATE: "what followed may be read already",
    EARLY: "keys that came back to the partition may be out of order",
    UNEXPLAINED: "their keys are in no order",
}
#: Epochs from which on a key can have come back.
_EPOCHS_OF_RETURN: Final = 3


class EpochsOfRows:
    """The epochs of one task's rows, in their order."""

    def __init__(self, log: TopicPartition, epochs: LogEpochs) -> None:
        self._log, self._epochs = log, epochs
        spoils = {LATE: epochs.is_late_a_fault, EARLY: len(epochs.counts) >= _EPOCHS_OF_RETURN}
        self._faults = {kind for kind in _SPOILED if spoils.get(kind, True)}
        self._counts: Counter[int] = Counter()
        self._first: dict[int, int] = {}

    @property
    def wanted(self) -> frozenset[str]:
        """The columns that are looked at."""
        return frozenset(() if self._epochs.check is PartitionerCheck.NONE else ("key",))

    def marked(self, columns: Columns) -> Columns:
        """The same rows with their epochs. Raises ``OptionError`` (fatal) for keys that have no order."""
        epochs = by_offset(columns.offset, self._epochs.first, self._epochs.boundaries)
        if columns.keys is None or self._epochs.check is PartitionerCheck.NONE:
            return replace(columns, epochs=epochs)
        epochs, kinds = self._checked(columns.keys, epochs)
        if not kinds.any():
            return replace(columns, epochs=epochs)
        for kind, count in enumerate(np.bincount(kinds).tolist()):
            if kind != EXPECTED and count:
                self._counts[kind] += count
                self._first.setdefault(kind, int(columns.offset[np.argmax(kinds == kind)]))
        if self._epochs.check is PartitionerCheck.STRICT:
            self._refuse()
        return replace(columns, epochs=epochs, strays=STRAYS.take(pa.array(kinds)))

    def _checked(self, keys: pa.BinaryArray, epochs: Int32s) -> tuple[Int32s, Uint8s]:
        keyed = keys.is_valid().to_numpy(zero_copy_only=False)
        return by_key(positive_hashes(keys), keyed, epochs, self._log.partition, self._epochs.counts)

    def _refuse(self) -> None:
        if (fault := max(self._faults & self._counts.keys(), default=EXPECTED)) == EXPECTED:
            return
        raise OptionError(
            f"option verifyPartitioner: so far {self._what(fault)}; {_SPOILED[fault]}: set it to true to go "
            "on and have them marked in the column stray, or to false to go by boundaries alone"
        )

    def tell(self) -> None:
        """Log what was found, if there was something: as a warning, unless it has its order all the same."""
        is_kept = self._counts.keys().isdisjoint(self._faults)
        level = logging.INFO if is_kept else logging.WARNING
        if self._counts:
            _log.log(level, "option keyOrder: %s", "; ".join(map(self._what, sorted(self._counts))))

    def _what(self, kind: int) -> str:
        count = self._counts[kind]
        return f"{self._log}: {count} records, the first at offset {self._first[kind]}: {_TOLD[kind]}"
