"""Plans the batches of one streaming query on the driver.

    planner = StreamPlanner(options)
    start = planner.initial()                    # of a new query; else the checkpoint has it
    end = planner.next(start)
    tasks = planner.tasks(start, end)           # follows from these and the options alone, always

All that is kept here between two calls may be lost with the process.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from ..clients.reading.task import FetchTask
from ..errors import (
    Action,
    DataLossError,
    KafkaWireError,
    OptionError,
    shown,
)
from ..model import Leader, LogBounds, OffsetRange, TopicPartition
from ..net.known_versions import KNOWN
from ..net.retry import Attempts
from ..options import LimitKind, StreamOptions
from .batch import covers
from .ranges import split
from .stream import Bounds, Losses, losses, must_wait, next_offsets, ranges_between, until
from .stream_key_order import StreamKeyOrder
from .stream_leaders import bounds_of, leaders_of
from .stream_logs import StreamLogs
from .stream_offsets import UNPINNED, Offsets
from .stream_start import QueryStart

_log = logging.getLogger("spark_kafkawire")

#: How often brokers are asked for the ends of logs while nothing comes, seconds: Spark asks every 10 ms then.
POLL_INTERVAL_S: Final = 0.1


class _Doubt(KafkaWireError):
    """Something that was there seems to be gone: it is looked for again before it is believed."""

    action = Action.REFRESH


class StreamPlanner:
    """The planner of one run of one query; it lives in one process. ``clock`` and ``sleep`` count seconds."""

    def __init__(
        self,
        options: StreamOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._read, self._limits, self._clock, self._sleep = options.read, options.limits, clock, sleep
        self._logs = StreamLogs(options.read, clock=clock)
        self._order = StreamKeyOrder(options.read, self._logs)
        self._start = QueryStart(options.read, self._logs, self._lose)
        self._ends: dict[TopicPartition, int] | None = None
        self._polled_s = self._batched_s = -math.inf
        self._stood: Offsets | None = None
        self._told: set[str] = set()
        #: The latest offsets of the last look, for those who watch the query's lag.
        self.latest: dict[TopicPartition, int] | None = None

    def initial(self) -> dict[TopicPartition, int]:
        """Where a new query starts; see ``QueryStart``."""
        return self._start.initial()

    @property
    def is_begun(self) -> bool:
        """Whether Spark has asked this run where the query starts: no checkpoint knows it."""
        return self._start.is_asked

    def stop_at_latest(self) -> None:
        """Go no further than where the logs end now (the trigger AvailableNow)."""
        self.stop_at({log: found.latest for log, found in self._logs.bounds(()).items()})

    def stop_at(self, ends: Offsets) -> None:
        """Go no further than there."""
        self._ends = dict(ends)

    def narrow(self, logs: Collection[TopicPartition]) -> None:
        """Read these of the selected logs, from now on: others have the rest."""
        self._logs.narrow(logs)

    def bounds_of(self, logs: list[TopicPartition]) -> Bounds:
        """Where those of the logs that are there start and end."""
        return self._logs.ask(lambda cluster: bounds_of(cluster, logs)) if logs else {}

    def next(self, start: Offsets, *, limited: bool = True) -> dict[TopicPartition, int]:
        """Where the batch that begins at ``start`` ends; at ``start`` itself where there is nothing to read.

        Waits until brokers may be asked again. Raises ``DataLossError`` where logs or their ends are gone,
        and what the cluster raises.
        """
        self._check_topics(start)
        self._pace(start)
        found = self._settled(start)
        self.latest = _latest(found)
        bounds = found if self._ends is None else until(found, self._ends)
        if limited and self._ends is None:
            now_s = self._clock()
            if must_wait(start, bounds, self._limits, now_s - self._batched_s):
                return dict(start)
            self._batched_s = now_s
        ends = next_offsets(start, bounds, self._limits.size_max if limited else None)
        ends = self._order.held(start, ends, found)
        return {**self._carried(start, bounds), **ends, **self._start.pinned(start, bounds)}

    def _check_topics(self, stands: Offsets) -> None:
        """Refuse a checkpoint that holds nothing of what the options select."""
        topics = sorted({log.topic for log in stands})
        if topics and not any(covers(self._read.selection, topic) for topic in topics):
            raise OptionError(
                f"checkpointLocation: it holds the offsets of {', '.join(map(shown, topics[:3]))}, which the "
                "options do not name: give this query a checkpoint of its own, or the options of before"
            )

    def _pace(self, start: Offsets) -> None:
        """Wait where nothing came since the last look; after a batch brokers are asked at once."""
        wait_s = self._polled_s + POLL_INTERVAL_S - self._clock()
        if wait_s > 0 and start == self._stood:
            self._sleep(wait_s)
        self._polled_s, self._stood = self._clock(), start

    def _settled(self, start: Offsets) -> dict[TopicPartition, LogBounds]:
        """What the cluster says, once it holds all where the query stands, or that is told to be lost."""
        attempts = Attempts(self._read.planning_retry.impatient, sleep=self._sleep)
        while True:
            bounds = self._logs.bounds(list(start))
            latest = {**self._carried(start, bounds), **_latest(bounds)}
            cut_off = losses(self._ends or {}, latest)
            lost = cut_off or losses(start, latest)
            if not lost:
                return bounds
            self._logs.forget()
            try:
                attempts.failed(_Doubt(str(lost)))
            except _Doubt:
                self._lose(str(lost), is_due=bool(cut_off))
                self._logs.accept_new_topics()
                return bounds

    def _carried(self, start: Offsets, bounds: Bounds) -> dict[TopicPartition, int]:
        """The places in logs that are there, and cannot be reached: the query goes on with them later."""
        missed = [log for log, offset in start.items() if log not in bounds and offset != UNPINNED]
        return {log: start[log] for log in self._logs.unreachable(missed)} if missed else {}

    def tasks(self, start: Offsets, end: Offsets, *, is_pinned: bool = False) -> tuple[FetchTask, ...]:
        """What the batch from ``start`` to ``end`` reads, in the order of ``end``.

        Raises ``DataLossError`` for logs of it that are gone, and ``OptionError`` for a first batch of
        another source, unless that ``is_pinned``. Offsets that are gone are found, and told, by
        the task that reads them.
        """
        self._check_topics(end)
        if self.latest is None and self._start.is_at(start):
            start = self._start.run_again(start, end, is_pinned=is_pinned)
        if what := losses(start, end):
            self._lose(str(what))
        ranges, gone = ranges_between(start, end, self._earliest([log for log in end if log not in start]))
        for lost in gone:
            self._lose(f"{lost} of a new partition was deleted before it was read")
        leaders = self._leaders({each.log: each.start_offset for each in ranges})
        ranges = tuple(each for each in ranges if each.log in leaders)
        parts = split(
            ranges, self._read.min_partitions, self._read.partition_size_max, self._cut_points(ranges)
        )
        floor = KNOWN.floor(self._read.net.connection, [leader.broker for leader in leaders.values()])
        return self._order.marked(
            FetchTask(part, leaders[part.log], start_option=self._option(part), floor=floor) for part in parts
        )

    def _earliest(self, logs: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Where new logs begin; 0 for one that is gone by now, which ``_leaders`` tells."""
        bounds = self.bounds_of(logs)
        return {log: bounds[log].earliest if log in bounds else 0 for log in logs}

    def _leaders(self, starts: Offsets) -> Mapping[TopicPartition, Leader]:
        """Who serves each of the logs that are read from there on; what has no leader any more is a loss."""
        found = self._logs.ask(lambda cluster: leaders_of(cluster, list(starts)))
        if gone := [(log, offset) for log, offset in starts.items() if log not in found]:
            self._lose(str(Losses(vanished=tuple(gone))))
        return found

    def _cut_points(self, ranges: Iterable[OffsetRange]) -> Mapping[TopicPartition, tuple[int, ...]] | None:
        splits = self._read.min_partitions is not None or self._read.partition_size_max is not None
        logs = [each.log for each in ranges]
        return self._logs.ask(lambda cluster: cluster.cut_points(logs)) if splits else None

    def _option(self, part: OffsetRange) -> str | None:
        """The option that gave the start of a range as a number: in 0.7 it may be no message boundary."""
        limit = self._read.starting.by_log.get(part.log)
        is_given = limit is not None and (limit.kind, limit.value) == (LimitKind.OFFSET, part.start_offset)
        return self._read.starting.option if is_given and part.log.broker is not None else None

    def _lose(self, loss: str, *, is_due: bool = False) -> None:
        """Fail, or warn and go on. What AvailableNow is to read must be there until then: ``is_due``."""
        if is_due:
            raise DataLossError(f"{loss}; the trigger availableNow was to read it: start the query again")
        if self._read.fetch.fail_on_data_loss:
            raise DataLossError(f"{loss}; to go on with what is left, set failOnDataLoss=false")
        if loss not in self._told:
            self._told.add(loss)
            _log.warning("%s; going on because failOnDataLoss=false", loss)


def _latest(bounds: Bounds) -> dict[TopicPartition, int]:
    return {log: found.latest for log, found in bounds.items()}
