"""Start of a new streaming query, for both generations, and its first batch.

The checkpoint does not contain the start of a query before its first batch is finished. Until then Spark
requests the start before that batch is planned, and again when it runs again after a crash. So the first
batch of a start that moves, as ``latest`` does, reads nothing: it pins the start in the checkpoint. Its end
has a mark (``stream_offsets.PIN_MARK``), because the first batch of ``format("kafka")`` reads records after a
start that only that source knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..cluster.cluster import Cluster
from ..errors import LOG, OptionError
from ..model import PartitionBounds, TopicPartition
from ..options import LimitKind, ReadOptions
from .limits import check_names, limit_of, start_of
from .stream import Bounds
from .stream_offsets import UNPINNED, Offsets
from .stream_partitions import StreamPartitions

#: Starts that may differ when a query that crashed in its first batch starts again.
_MOVING: Final = (LimitKind.LATEST, LimitKind.COMMITTED)


class QueryStart:
    """Start of one query by its options. ``lose`` warns about a loss, or raises it."""

    def __init__(
        self, options: ReadOptions, partitions: StreamPartitions, lose: Callable[[str], None]
    ) -> None:
        self._options, self._partitions, self._lose = options, partitions, lose
        self._initial: dict[TopicPartition, int] | None = None

    def initial(self) -> dict[TopicPartition, int]:
        """Start offsets of a new query; every call returns the same, because Spark asks twice.

        Starts that may move before the first batch is in the checkpoint are ``UNPINNED``. Raises
        ``OptionError``, ``DataLossError``, and the errors of the cluster.
        """
        if self._initial is None:
            bounds = self._partitions.select()
            check_names(self._options.starting, list(bounds))
            self._initial = self._partitions.ask(lambda cluster: self._starts(cluster, bounds))
        return self._initial

    @property
    def is_asked(self) -> bool:
        """True if ``initial`` was called."""
        return self._initial is not None

    def is_at(self, start: Offsets) -> bool:
        """True if the batch that begins at ``start`` is the first one."""
        return start == self._initial

    def _starts(self, cluster: Cluster, bounds: Bounds) -> dict[TopicPartition, int]:
        starting = self._options.starting
        limits = {tp: limit_of(starting, tp) for tp in bounds}
        times = {tp: limit.value for tp, limit in limits.items() if limit.kind is LimitKind.TIMESTAMP}
        by_time = cluster.start_offsets(times, bounds) if times else {}
        no_match = {
            tp for tp, offset in by_time.items() if offset is None and self._options.latest_if_no_match
        }
        return {
            tp: UNPINNED
            if limits[tp].kind in _MOVING or tp in no_match
            else self._inside(start_of(starting, found, by_time, latest_if_no_match=False).offset, found)
            for tp, found in bounds.items()
        }

    def pinned(self, start: Offsets, bounds: Bounds) -> dict[TopicPartition, int]:
        """Committed start offsets of partitions that have no start yet."""
        starting = self._options.starting
        asked = [
            tp
            for tp in bounds
            if start.get(tp) == UNPINNED and limit_of(starting, tp).kind is LimitKind.COMMITTED
        ]
        if not asked:
            return {}
        committed = self._partitions.ask(lambda cluster: cluster.committed_offsets(asked))
        ends = (start_of(starting, bounds[tp], committed, latest_if_no_match=False) for tp in asked)
        return {tp: self._inside(end.offset, bounds[tp]) for tp, end in zip(asked, ends, strict=True)}

    def _inside(self, offset: int, bounds: PartitionBounds) -> int:
        """A given offset, or the nearest one in the partition."""
        if not bounds.earliest <= offset <= bounds.latest:
            self._lose(
                f"option {self._options.starting.option}: offset {offset} is not in "
                f"{bounds.topic_partition}, which holds [{bounds.earliest}, {bounds.latest})"
            )
        return min(max(offset, bounds.earliest), bounds.latest)

    def run_again(self, start: Offsets, end: Offsets, *, is_pinned: bool) -> dict[TopicPartition, int]:
        """Start offsets of a first batch that an earlier run planned up to ``end`` and did not finish.

        Newer partitions are left to the next batch. Raises ``OptionError`` (fatal) if the earlier start is
        unknown, ``DataLossError`` if records of the batch are gone.
        """
        begins = {tp: offset for tp, offset in start.items() if tp in end}
        if not is_pinned and (unknown := [tp for tp in sorted(begins) if begins[tp] == UNPINNED]):
            raise OptionError(
                f'checkpointLocation: format("kafka") planned the first batch and did not finish it, and '
                f"only that source knows where {unknown[0]} starts: let it finish the batch, or set the "
                "startingOffsets that kafkawire checkpoints shows"
            )
        for partition, offset in begins.items():
            if offset > end[partition]:
                self._lose(
                    f"{partition} begins at {offset} now, but the first batch, which runs again, ends at "
                    f"{end[partition]}: the records in between are gone"
                )
        if moved := [tp for tp in sorted(begins) if begins[tp] > 0 and self._is_found(tp)]:
            LOG.warning(
                "the first batch runs again from the first records that still exist, of %s from %d: records "
                "that were deleted since it was planned are not read",
                moved[0],
                begins[moved[0]],
            )
        return {tp: min(offset, end[tp]) for tp, offset in begins.items()}

    def _is_found(self, partition: TopicPartition) -> bool:
        """True if the start of a partition is not a given offset, but depends on its records."""
        return limit_of(self._options.starting, partition).kind is not LimitKind.OFFSET
