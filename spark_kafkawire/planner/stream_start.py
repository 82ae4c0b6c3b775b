"""Where a new query starts, and its first batch.

The checkpoint does not know the start of a query before its first batch is done: until then Spark asks for
it, before that batch is planned, and again when it is run again after a crash. So the first batch of a
start that moves, as ``latest`` does, reads nothing: it writes the start down. Its end tells that it is
such a batch (``stream_offsets.PIN_MARK``), for ``format("kafka")`` reads in its first batch what came
after a start that only that source knows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from ..cluster.cluster import Cluster
from ..errors import OptionError
from ..model import LogBounds, TopicPartition
from ..options import LimitKind, ReadOptions
from .limits import check_names, limit_of, start_of
from .stream import Bounds
from .stream_logs import StreamLogs
from .stream_offsets import UNPINNED, Offsets

_log = logging.getLogger("spark_kafkawire")

#: Starts that would be others when a query that crashed in its first batch starts again.
_MOVING: Final = (LimitKind.LATEST, LimitKind.COMMITTED)


class QueryStart:
    """The start of one query, as its options say it. ``lose`` tells of a loss, or raises it."""

    def __init__(self, options: ReadOptions, logs: StreamLogs, lose: Callable[[str], None]) -> None:
        self._options, self._logs, self._lose = options, logs, lose
        self._initial: dict[TopicPartition, int] | None = None

    def initial(self) -> dict[TopicPartition, int]:
        """Where a new query starts; the same at each call, for Spark asks twice.

        Starts that would move until the first batch is written down are ``UNPINNED``. Raises
        ``OptionError``, ``DataLossError``, and what the cluster raises.
        """
        if self._initial is None:
            bounds = self._logs.select()
            check_names(self._options.starting, list(bounds))
            self._initial = self._logs.ask(lambda cluster: self._starts(cluster, bounds))
        return self._initial

    @property
    def is_asked(self) -> bool:
        """Whether ``initial`` was called."""
        return self._initial is not None

    def is_at(self, start: Offsets) -> bool:
        """Whether a batch that begins there is the first one."""
        return start == self._initial

    def _starts(self, cluster: Cluster, bounds: Bounds) -> dict[TopicPartition, int]:
        starting = self._options.starting
        limits = {log: limit_of(starting, log) for log in bounds}
        times = {log: limit.value for log, limit in limits.items() if limit.kind is LimitKind.TIMESTAMP}
        told = cluster.start_offsets(times, bounds) if times else {}
        no_match = {
            log for log, offset in told.items() if offset is None and self._options.latest_if_no_match
        }
        return {
            log: UNPINNED
            if limits[log].kind in _MOVING or log in no_match
            else self._inside(start_of(starting, found, told, latest_if_no_match=False).offset, found)
            for log, found in bounds.items()
        }

    def pinned(self, start: Offsets, bounds: Bounds) -> dict[TopicPartition, int]:
        """The starts that only the cluster knows, of logs that have none yet."""
        starting = self._options.starting
        asked = [
            log
            for log in bounds
            if start.get(log) == UNPINNED and limit_of(starting, log).kind is LimitKind.COMMITTED
        ]
        if not asked:
            return {}
        committed = self._logs.ask(lambda cluster: cluster.committed_offsets(asked))
        ends = (start_of(starting, bounds[log], committed, latest_if_no_match=False) for log in asked)
        return {log: self._inside(end.offset, bounds[log]) for log, end in zip(asked, ends, strict=True)}

    def _inside(self, offset: int, bounds: LogBounds) -> int:
        """An offset that was given, or the nearest one that the log has."""
        if not bounds.earliest <= offset <= bounds.latest:
            self._lose(
                f"option {self._options.starting.option}: offset {offset} is not in {bounds.log}, which "
                f"holds [{bounds.earliest}, {bounds.latest})"
            )
        return min(max(offset, bounds.earliest), bounds.latest)

    def run_again(self, start: Offsets, end: Offsets, *, is_pinned: bool) -> dict[TopicPartition, int]:
        """Where the first batch starts that an earlier run had planned to end at ``end``, and not finished.

        Logs that came since then are left to the next batch. Raises ``OptionError`` (fatal) where nobody
        knows the start of then, ``DataLossError`` where what the batch was to read is gone.
        """
        begins = {log: offset for log, offset in start.items() if log in end}
        if not is_pinned and (unknown := [log for log in sorted(begins) if begins[log] == UNPINNED]):
            raise OptionError(
                f'checkpointLocation: format("kafka") planned the first batch, which is not done, and '
                f"where {unknown[0]} starts is known to it alone: let it finish that batch, or give the "
                "startingOffsets that jobs/checkpoints.py shows"
            )
        for log, offset in begins.items():
            if offset > end[log]:
                self._lose(
                    f"{log} begins at {offset} now, and the first batch, which is run again, was to end at "
                    f"{end[log]}: the records in between are gone"
                )
        if moved := [log for log in sorted(begins) if begins[log] > 0 and self._is_found(log)]:
            _log.warning(
                "the first batch is run again from the first records that there are now, of %s from %d: what "
                "was deleted since it was planned is not read",
                moved[0],
                begins[moved[0]],
            )
        return {log: min(offset, end[log]) for log, offset in begins.items()}

    def _is_found(self, log: TopicPartition) -> bool:
        """Whether the start of a log is not given, but found in what the log holds."""
        return limit_of(self._options.starting, log).kind is not LimitKind.OFFSET
