"""A member of a consumer group of Kafka 0.7: it registers, keeps its share of the partitions, and leaves.

    member.hold()            partitions that it owns now, and keeps ...
    member.commit(offsets)
    member.let_go()          ... until here

After each change of consumers, topics or partitions, every member computes the assignment again
(``balancing``), gives up partitions that are no longer assigned to it, and claims those that are now
assigned to it (``ownership``). A separate thread does so between batches, and ``hold`` does so before it
returns. Held partitions are kept, so that only one member reads the rows of a batch.

A partition whose broker is gone does not belong to the group meanwhile, as for the JVM consumers: the nodes
of a broker in /brokers/topics disappear with its session.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from spark_kafkawire.errors import LOG, KafkaWireError, counted, quoted
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.retry import RetryPolicy, retried
from spark_kafkawire.options import Discovery

from .member_session import MemberSession
from .owned_partition import OwnedPartition, abandoned_text
from .ownership import Ownership

#: Seconds between two looks at the group: while another member owns a partition to claim, or after a failure,
#: as for the JVM consumers (``zk.synctime.ms``); and otherwise. After the latter time a look reads all nodes
#: again, in case a watch was missed.
LOOK_SOON_S: Final = 2.0
LOOK_AGAIN_S: Final = 30.0
#: Least seconds between two looks by the member's own thread: many members that come or go together are seen
#: in a few looks.
LOOK_PAUSE_S: Final = 0.2
#: Most seconds of one look by the member's own thread: ``hold`` and ``commit`` wait for its end.
LOOK_TIMEOUT_S: Final = 10.0
#: Seconds to wait for another owner before a warning, and between two warnings.
WARN_AFTER_S: Final = 60.0


class Member:
    """A consumer with ``thread_count`` threads. ``timeout_s`` limits each wait for ZooKeeper."""

    def __init__(
        self,
        discovery: Discovery,
        group: str,
        topics: Sequence[str],
        thread_count: int,
        retry: RetryPolicy,
        timeout_s: float,
    ) -> None:
        self.id = f"{group}_{_host()}-{time.time_ns() // 1_000_000}-{uuid.uuid4().hex[:8]}"
        self._group, self._retry, self._timeout_s = group, retry, timeout_s
        self._lock = threading.Lock()
        self._stirred = threading.Event()
        self._stirred.set()
        self._closed = threading.Event()
        self._owned = Ownership(group, self.id, topics, thread_count)
        self._lost_count = 0
        self._waits_s = self._read_s = time.monotonic()
        self._session = MemberSession(discovery, self._stirred.set)
        threading.Thread(target=self._run, name="kafkawire-member", daemon=True).start()

    def hold(self) -> dict[TopicPartition, OwnedPartition]:
        """Partitions that it owns by the current state of the group. It keeps them until ``let_go`` or the
        next call.

        Raises ``DiscoveryError`` (fatal) if ZooKeeper does not answer or a node of the group cannot be read,
        ``OptionError`` (fatal) for a group that cannot be joined.
        """
        with self._lock:
            self._free(self._owned.held)
            timeout_s = self._retry.bootstrap.bound_s or self._timeout_s
            retried(lambda: self._balance(timeout_s), self._retry)
            self._retry.bootstrap.answered()
            self._owned.held = frozenset(self._owned.partitions)
            return dict(self._owned.partitions)

    def let_go(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Allow these partitions, or all, to be given up from now on."""
        with self._lock:
            self._free(self._owned.held if partitions is None else partitions)

    def _free(self, partitions: Collection[TopicPartition]) -> None:
        self._owned.held = self._owned.held.difference(partitions)
        if self._owned.is_waited_for:
            self._stirred.set()

    @property
    def others(self) -> dict[TopicPartition, str]:
        """Partitions that are assigned to it, with the threads that have not given them up yet."""
        with self._lock:
            return dict(self._owned.others)

    @property
    def unregistered(self) -> list[str]:
        """Topics of the consumer for which no broker had a partition at the last look."""
        with self._lock:
            return list(self._owned.unregistered)

    @property
    def abandoned(self) -> list[str]:
        """Nodes that kept partitions from every reader at the last look, a line for each."""
        with self._lock:
            return list(self._owned.abandoned)

    @property
    def is_asked_to_leave(self) -> bool:
        """True if the last look found a request to leave the group (``ask_to_leave``)."""
        with self._lock:
            return self._owned.is_asked_to_leave

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, OwnedPartition]]) -> list[TopicPartition]:
        """Commit offsets of owned partitions.

        Partitions that were lost meanwhile are not committed, and are returned. Raises as ``hold`` does.
        """
        with self._lock:
            return retried(lambda: self._commit(offsets), self._retry)

    def _commit(self, offsets: Mapping[TopicPartition, tuple[int, OwnedPartition]]) -> list[TopicPartition]:
        with self._session.tree(self._timeout_s) as tree:
            self._forget_lost()
            return self._owned.commit(tree, offsets)

    def close(self) -> None:
        """Leave the group and free its partitions at once."""
        self._closed.set()
        self._stirred.set()
        self._session.close()

    def _run(self) -> None:
        is_fine, pause_s = True, 0.0
        while not self._closed.wait(pause_s):
            is_soon = not is_fine or self._owned.others or self._owned.abandoned
            if not self._stirred.wait(LOOK_SOON_S if is_soon else LOOK_AGAIN_S):
                self._stirred.set()
            is_fine = self._look()
            pause_s = LOOK_PAUSE_S if is_fine else LOOK_SOON_S

    def _look(self) -> bool:
        """Look at the group once. True if it worked; the next ``hold`` repeats, and reports, what fails."""
        with self._lock, contextlib.suppress(KafkaWireError):
            if not self._closed.is_set():
                self._balance(LOOK_TIMEOUT_S)
                self._warn_of_others()
            return True
        return False

    def _balance(self, timeout_s: float) -> None:
        """Look at the group if something may have changed."""
        self._session.check()
        if not self._stirred.is_set():
            return
        self._stirred.clear()
        now_s = time.monotonic()
        if now_s - self._read_s >= LOOK_AGAIN_S:
            self._read_s = now_s
            self._session.forget()
        try:
            with self._session.tree(timeout_s) as tree:
                self._forget_lost()
                self._owned.balance(tree)
        except BaseException:
            self._stirred.set()
            raise

    def _forget_lost(self) -> None:
        if self._lost_count != self._session.lost_count:
            self._lost_count = self._session.lost_count
            self._owned.lose()

    def _warn_of_others(self) -> None:
        now_s = time.monotonic()
        if not (self._owned.others or self._owned.abandoned):
            self._waits_s = now_s
            return
        if now_s - self._waits_s < WARN_AFTER_S:
            return
        self._waits_s = now_s
        if self._owned.abandoned:
            LOG.warning("%s", abandoned_text(self._group, self._owned.abandoned))
        else:
            partition, owner = next(iter(self._owned.others.items()))
            LOG.warning(
                "group %s: %s is assigned to this consumer, but its owner %s does not give it up (one of "
                "%s); until then only that owner reads it",
                quoted(self._group),
                partition,
                owner,
                counted(len(self._owned.others), "partition"),
            )


def _host() -> str:
    """The host name, as part of the name of a node."""
    return "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in socket.gethostname())[:64]
