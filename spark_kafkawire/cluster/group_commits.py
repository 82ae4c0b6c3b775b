"""Commits of a streaming query to a consumer group (``kafka.group.id``), for both generations.

The lag of the group is then the lag of the query:

    commits = commits_of(options)
    commits.commit(offsets)             # of all partitions of the query; returns at once
    commits.settled(30.0)               # True if they are committed

A separate thread commits: if brokers do not answer or refuse the commit, a warning is logged, and the query
never waits. Only the newest offsets count, so the next commit repairs a failed one.

The position of a query is in its checkpoint. So a group that is ahead of the query is set back with a
warning: another consumer commits to the group, or the query started without its checkpoint.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from ..errors import LOG, KafkaWireError, counted, printable, quote
from ..model import TopicPartition
from ..options import ReadOptions
from . import ConsumerGroups, cluster_of

#: Seconds between two warnings of the same failure.
WARN_AGAIN_S: Final = 60.0


class GroupCommits:
    """Commits to one group. Thread-safe; the committing thread lives while there is something to commit."""

    def __init__(
        self, groups: ConsumerGroups, group: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._groups, self._group, self._clock = groups, group, clock
        self._lock = threading.Lock()
        self._idle = threading.Event()
        self._idle.set()
        self._left: dict[TopicPartition, int] = {}
        self._is_due = False
        self._warned: str | None = None
        self._warned_s = 0.0

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Schedule a commit of the offset of the next message of each partition. Raises nothing."""
        with self._lock:
            self._left = dict(offsets)
            self._begin()

    def retry(self) -> None:
        """Retry the last commit if it failed."""
        with self._lock:
            self._begin()

    def _begin(self) -> None:
        self._is_due = bool(self._left)
        if not self._is_due or not self._idle.is_set():
            return
        self._idle.clear()
        try:
            threading.Thread(target=self._run, name="kafkawire-commits", daemon=True).start()
        except RuntimeError as error:  # no more threads, or Python is about to end
            self._idle.set()
            LOG.warning("group %s: offsets are not committed: %s", quote(self._group), printable(error))

    def settle(self, timeout_s: float) -> bool:
        """Wait until no commit is in progress. True if everything is committed."""
        return self._idle.wait(timeout_s) and not self._left

    def _run(self) -> None:
        try:
            while offsets := self._next():
                self._commit(offsets)
        except BaseException:  # a bug of this package, which Python reports
            self._idle.set()
            raise

    def _next(self) -> dict[TopicPartition, int]:
        """Offsets to commit now; if there are none, the thread ends."""
        with self._lock:
            if not self._is_due:
                self._idle.set()
                return {}
            self._is_due = False
            offsets, self._left = self._left, {}
            return offsets

    def _commit(self, offsets: dict[TopicPartition, int]) -> None:
        try:
            self._warn_of_moves_back(offsets)
            self._groups.commit(self._group, offsets)
        except KafkaWireError as error:
            with self._lock:
                self._left = self._left or offsets  # unless there are newer ones
            self._warn_of_failure(error)
        else:
            if self._warned is not None:
                self._warned = None
                LOG.info("group %s: commits succeed again", quote(self._group))

    def _warn_of_moves_back(self, offsets: Mapping[TopicPartition, int]) -> None:
        committed = self._groups.offsets(self._group, sorted(offsets), strict=False)
        back = [
            (tp, result) for tp, result in committed.items() if result is not None and result > offsets[tp]
        ]
        if back:
            partition, result = back[0]
            more = f", as in {counted(len(back) - 1, 'more partition')}" if len(back) > 1 else ""
            LOG.warning(
                "group %s: the committed offset %d of %s is set back to %d, the position of the query%s: the "
                "query lost its checkpoint, or another consumer commits to the group and needs its own group",
                quote(self._group),
                result,
                partition,
                offsets[partition],
                more,
            )

    def _warn_of_failure(self, error: KafkaWireError) -> None:
        text, now_s = str(error), self._clock()
        if text != self._warned or now_s - self._warned_s >= WARN_AGAIN_S:
            self._warned, self._warned_s = text, now_s
            LOG.warning(
                "group %s: offsets are not committed: %s; the query continues, and its next batch tries "
                "again",
                quote(self._group),
                error,
            )


def commits_of(options: ReadOptions) -> GroupCommits:
    """Commits to the group of the options, which name one.

    A commit fails after ``requestTimeout``, whatever the ``brokerDownTimeout`` of the query: the next commit
    replaces it.
    """
    assert options.group_id is not None
    impatient = replace(options, planning_retry=options.planning_retry.impatient)
    return GroupCommits(cluster_of(impatient).groups, options.group_id)
