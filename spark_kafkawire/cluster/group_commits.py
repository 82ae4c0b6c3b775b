"""Keeps a consumer group where a streaming query stands: who looks at the lag of the group sees the query.

    commits = commits_of(options)
    commits.commit(offsets)             # of all logs of the query; returns at once
    commits.settled(30.0)               # whether they are committed

A thread of its own commits: brokers that do not answer, and a group that refuses, are told, and the query
never waits for them. Only the newest offsets count, so the next commit makes good what failed.

A query's place is in its checkpoint. So a group that stands further on is put back, which is told: somebody
else commits to it, or the query began anew.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from ..errors import KafkaWireError, quoted, shown
from ..model import TopicPartition
from ..options import ReadOptions
from .cluster import Cluster, cluster_of

_log = logging.getLogger("spark_kafkawire")

#: A failure that goes on is told again after so many seconds.
TOLD_AGAIN_S: Final = 60.0


class GroupCommits:
    """Commits to one group. Safe for many threads; there is a thread while there is something to commit."""

    def __init__(self, cluster: Cluster, group: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster, self._group, self._clock = cluster, group, clock
        self._lock = threading.Lock()
        self._idle = threading.Event()
        self._idle.set()
        self._left: dict[TopicPartition, int] = {}
        self._is_due = False
        self._told: str | None = None
        self._told_s = 0.0

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Let the group stand at the offset of the next message of each log, soon. Raises nothing."""
        with self._lock:
            self._left = dict(offsets)
            self._begin()

    def retry(self) -> None:
        """Commit what could not be committed when that was tried last."""
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
            _log.warning("group %s: offsets are not committed: %s", quoted(self._group), shown(error))

    def settled(self, timeout_s: float) -> bool:
        """Wait until nothing is under way; whether all is committed."""
        return self._idle.wait(timeout_s) and not self._left

    def _run(self) -> None:
        try:
            while offsets := self._next():
                self._commit(offsets)
        except BaseException:  # a mistake of ours, which Python shows
            self._idle.set()
            raise

    def _next(self) -> dict[TopicPartition, int]:
        """What to commit now; nothing ends the thread."""
        with self._lock:
            if not self._is_due:
                self._idle.set()
                return {}
            self._is_due = False
            offsets, self._left = self._left, {}
            return offsets

    def _commit(self, offsets: dict[TopicPartition, int]) -> None:
        try:
            self._tell_moves_back(offsets)
            self._cluster.commit_group_offsets(self._group, offsets)
        except KafkaWireError as error:
            with self._lock:
                self._left = self._left or offsets  # unless newer ones have come
            self._tell_failure(error)
        else:
            if self._told is not None:
                self._told = None
                _log.info("group %s: commits go on", quoted(self._group))

    def _tell_moves_back(self, offsets: Mapping[TopicPartition, int]) -> None:
        stands = self._cluster.read_group_offsets(self._group, sorted(offsets), strict=False)
        back = [(log, found) for log, found in stands.items() if found is not None and found > offsets[log]]
        if back:
            log, found = back[0]
            more = f", as in {len(back) - 1} more partitions" if len(back) > 1 else ""
            _log.warning(
                "group %s stood at %d in %s, and is put back to %d, where the query stands%s: the query "
                "began anew, or somebody else commits to the group, and wants one of their own",
                quoted(self._group),
                found,
                log,
                offsets[log],
                more,
            )

    def _tell_failure(self, error: KafkaWireError) -> None:
        told, now_s = str(error), self._clock()
        if told != self._told or now_s - self._told_s >= TOLD_AGAIN_S:
            self._told, self._told_s = told, now_s
            _log.warning(
                "group %s: offsets are not committed: %s; the query goes on, and its next batch tries again",
                quoted(self._group),
                error,
            )


def commits_of(options: ReadOptions) -> GroupCommits:
    """Commits to the group of the options, which name one.

    A commit is given up after ``requestTimeout``, however patient the query is: the next one is as good.
    """
    assert options.group_id is not None
    impatient = replace(options, planning_retry=options.planning_retry.impatient)
    return GroupCommits(cluster_of(impatient), options.group_id)
