"""A member of a consumer group of Kafka 0.7: it registers, keeps its share of the partitions, and leaves.

    member.hold()            what it owns now; it stays so ...
    member.commit(offsets)
    member.let_go()          ... until here

Whenever consumers, topics or partitions come or go, each member computes anew who reads what (``balancing``),
gives up what it shall not own any more, and claims what it shall (``ownership``). A thread of its own does so
whenever it may; ``hold`` does it before it returns. What is held is kept: so the rows of a batch are read by
one member.

A partition whose broker is gone is no partition of the group then, as to the JVM's consumers: what a broker
registers in /brokers/topics goes with its session.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ...errors import KafkaWireError, quoted
from ...model import TopicPartition
from ...net.retry import Attempts, RetryPolicy
from ...options import Discovery
from ..claim import Claim
from .member_session import MemberSession
from .ownership import Ownership

_log = logging.getLogger("spark_kafkawire")

#: How often is looked again, seconds: while another member has what is to be claimed, or something failed, as
#: often as the JVM's consumers do (``zk.synctime.ms``); and in case that no watch has told of a change.
LOOK_SOON_S: Final = 2.0
LOOK_AGAIN_S: Final = 30.0
#: How long one look of the member's own thread may take, seconds: ``hold`` and ``commit`` wait for its end.
LOOK_TIMEOUT_S: Final = 10.0
#: For so long another owner is waited for before it is told, seconds, and told again.
TOLD_AFTER_S: Final = 60.0


class Member:
    """One consumer of ``thread_count`` threads. ``timeout_s`` bounds what is waited for ZooKeeper at once."""

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
        self._waits_s = time.monotonic()
        self._session = MemberSession(discovery, self._stirred.set)
        threading.Thread(target=self._run, name="kafkawire-member", daemon=True).start()

    def hold(self) -> dict[TopicPartition, Claim]:
        """What it owns, once it knows the group as it is now; it stays so until ``let_go``, or the next call.

        Raises ``DiscoveryError`` (fatal) where ZooKeeper does not answer or a node of the group is not
        understood, ``OptionError`` (fatal) for a group that cannot be joined.
        """
        with self._lock:
            self._free(self._owned.held)
            Attempts(self._retry).run(lambda: self._balance(self._timeout_s))
            self._owned.held = frozenset(self._owned.claims)
            return dict(self._owned.claims)

    def let_go(self, logs: Collection[TopicPartition] | None = None) -> None:
        """These logs, or all, may be given up from now on."""
        with self._lock:
            self._free(self._owned.held if logs is None else logs)

    def _free(self, logs: Collection[TopicPartition]) -> None:
        self._owned.held = self._owned.held.difference(logs)
        if self._owned.is_waited_for:
            self._stirred.set()

    @property
    def others(self) -> dict[TopicPartition, str]:
        """What it shall own, and the threads that have not given it up yet."""
        with self._lock:
            return dict(self._owned.others)

    @property
    def unregistered(self) -> list[str]:
        """Its topics of which no broker had a partition at the last look."""
        with self._lock:
            return list(self._owned.unregistered)

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, Claim]]) -> list[TopicPartition]:
        """Let the group stand at these offsets of logs as they were claimed.

        Those that were lost meanwhile are left alone, and returned. Raises as ``hold`` does.
        """
        with self._lock:
            return Attempts(self._retry).run(lambda: self._commit(offsets))

    def _commit(self, offsets: Mapping[TopicPartition, tuple[int, Claim]]) -> list[TopicPartition]:
        with self._session.tree(self._timeout_s) as tree:
            self._forget_lost()
            return self._owned.commit(tree, offsets)

    def close(self) -> None:
        """Leave the group: what it owned is free at once."""
        self._closed.set()
        self._stirred.set()
        self._session.close()

    def _run(self) -> None:
        pause_s = 0.0
        while not self._closed.wait(pause_s):
            is_soon = pause_s or self._owned.others
            self._stirred.wait(LOOK_SOON_S if is_soon else LOOK_AGAIN_S)
            pause_s = 0.0 if self._look() else LOOK_SOON_S

    def _look(self) -> bool:
        """Whether that worked. What fails is done, and told, by the next ``hold``."""
        with self._lock, contextlib.suppress(KafkaWireError):
            if not self._closed.is_set():
                self._stirred.set()
                self._balance(LOOK_TIMEOUT_S)
                self._tell_others()
            return True
        return False

    def _balance(self, timeout_s: float) -> None:
        """Look at the group, if there is something new to see."""
        self._session.check()
        if not self._stirred.is_set():
            return
        self._stirred.clear()
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

    def _tell_others(self) -> None:
        now_s = time.monotonic()
        if not self._owned.others:
            self._waits_s = now_s
        elif now_s - self._waits_s >= TOLD_AFTER_S:
            self._waits_s = now_s
            log, owner = next(iter(self._owned.others.items()))
            _log.warning(
                "group %s: %s is to be read here, and its owner %s does not give it up (one of %d "
                "partitions): nobody else reads it meanwhile",
                quoted(self._group),
                log,
                owner,
                len(self._owned.others),
            )


def _host() -> str:
    """This machine, as part of a node's name."""
    return "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in socket.gethostname())[:64]
