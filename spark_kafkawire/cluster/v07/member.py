"""A member of a consumer group of Kafka 0.7: it registers, keeps its share of the partitions, and leaves.

    member.hold()            partitions that it owns now, and keeps ...
    member.commit(offsets)
    member.let_go()          ... until here

After each change of consumers, topics or partitions, every member computes the assignment again, gives up
partitions that are no longer assigned to it, and claims those that are now assigned to it. A separate thread
does so between batches, and ``hold`` does so before it returns. Held partitions are kept, so that only one
member reads the rows of a batch.

A partition whose broker is gone does not belong to the group meanwhile, as for the JVM consumers: the nodes
of a broker in /brokers/topics disappear with its session.

**Session**: it reconnects, and counts lost sessions.

**Ownership**: only one member can create an owner node: the others wait until its owner removes it. The
offset of a partition is read after the partition is claimed, because the previous owner commits before it
gives the partition up.

==========================  =============================================  ===========
node below /consumers/G     data                                           lifetime
==========================  =============================================  ===========
ids/C                       topics of consumer C: ``{ "T": 2 }``           the session
owners/T/BROKER-PARTITION   the thread that reads it: ``C-1``              the session
offsets/T/BROKER-PARTITION  offset of the next message, as decimal text    persistent
leaving/C                   empty; asks consumer C of this package to end  its writer
==========================  =============================================  ===========

**Assignment**, by the rule of Kafka's own consumers: each member computes it from the nodes that it reads in
ZooKeeper; members that read the same nodes agree. Each topic is assigned separately, among the threads that
read it.

    {"T": 2}  of each consumer ──► its threads  C-0, C-1            ─┐ both sorted as Java sorts strings
    /brokers/topics/T/B: 3     ──► broker-partitions  B-0, B-1, B-2  ─┘
        threads   c1-0        c1-1    c2-0
        parts     0-0 0-1     1-0     1-1        chunks in that order; the first ones have one more

======================  ========================================================================
data of ids/C           consumer C reads
======================  ========================================================================
``{ "a": 2,"b": 1 }``   topic a in two threads, b in one
``*1*cc-.*``            all topics whose full name matches the regular expression, in one thread
``!1!cc-.*``            all other topics, in one thread
======================  ========================================================================

Source: ``zk_tree.json`` of ``tests/golden/kafka-0.7.2``; ZookeeperConsumerConnector, TopicCount and
TopicFilter of Kafka 0.7.2.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import KazooState, KeeperState

from spark_kafkawire.errors import (
    LOG,
    Action,
    DiscoveryError,
    KafkaWireError,
    OptionError,
    counted,
    printable,
    quote,
)
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.net.retry import RetryPolicy, call_with_retries
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import Discovery
from spark_kafkawire.options.java_pattern import JavaPattern, PatternError

from .groups import CONSUMERS, leaving_path, offset_of, offset_path
from .view import TOPICS, partition_counts
from .zookeeper_client import (
    Handler,
    LastWarning,
    Node,
    Tree,
    WatchedNodes,
    new_client,
    place_of,
    translate_errors,
)

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


@dataclass(frozen=True, slots=True)
class OwnedPartition:
    """A partition that a member owns.

    ``number`` differs each time that the member claims the partition, because other members may have read it
    in between. ``offset`` is the committed offset at that time, None if the group has never committed one.
    """

    partition: TopicPartition
    number: int
    offset: int | None


def abandoned_text(group: str, abandoned: Sequence[str]) -> str:
    """A message about nodes of a group that keep partitions from every reader, a line in ``abandoned`` for
    each node."""
    more = f" (the first of {len(abandoned)} such nodes)" if len(abandoned) > 1 else ""
    return f"group {quote(group)}: {abandoned[0]}{more}; remove such a node if its consumer is gone for good"


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
        """Partitions that it owns by the current state of the group, and keeps until ``let_go`` or the next
        call.

        Raises ``DiscoveryError`` (fatal) if ZooKeeper does not answer or a node of the group cannot be read,
        ``OptionError`` (fatal) for a group that cannot be joined.
        """
        with self._lock:
            self._free(self._owned.held)
            timeout_s = self._retry.bootstrap.bound_s or self._timeout_s
            call_with_retries(lambda: self._balance(timeout_s), self._retry)
            self._retry.bootstrap.answered()
            self._owned.held = frozenset(self._owned.partitions)
            return dict(self._owned.partitions)

    def let_go(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Allow these partitions, or all, to be given up from now on."""
        with self._lock:
            self._free(self._owned.held if partitions is None else partitions)

    def _free(self, partitions: Collection[TopicPartition]) -> None:
        self._owned.held = self._owned.held.difference(partitions)
        if self._owned.wanted_s is not None:
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
            return call_with_retries(lambda: self._commit(offsets), self._retry)

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
                quote(self._group),
                partition,
                owner,
                counted(len(self._owned.others), "partition"),
            )


def _host() -> str:
    """The host name, as part of the name of a node."""
    return "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in socket.gethostname())[:64]


#: Seconds until the nodes of a member that died disappear, as for the consumers of 0.7
#: (``zk.sessiontimeout.ms``). A server may raise it.
SESSION_TIMEOUT_S: Final = 6.0
#: Most seconds that leaving blocks the caller: if ZooKeeper does not answer, the nodes expire later.
CLOSE_TIMEOUT_S: Final = 5.0

_BROKEN: Final = (ConnectionLoss, ConnectionClosedError, SessionExpiredError)


class SessionBroke(KafkaWireError):
    """The connection to ZooKeeper broke, or the session is lost: everything must be read again."""

    action = Action.BACK_OFF


class MemberSession:
    """The session, open from its creation until ``close``. ``stirred`` is called in threads of kazoo whenever
    a watched node, the connection or the session may have changed."""

    def __init__(self, discovery: Discovery, stirred: Callable[[], None]) -> None:
        self._discovery = discovery
        self._stirred = stirred
        self._watched = WatchedNodes(stirred)
        self._warnings = LastWarning()
        hosts = 2 + (discovery.zookeeper_connect or "").count(",")
        self._client: Any = new_client(
            discovery, SESSION_TIMEOUT_S * hosts, Handler(self._warnings), self._warnings
        )
        #: Number of sessions that were lost, with all of their ephemeral nodes.
        self.lost_count = 0
        self._is_refused = False
        self._client.add_listener(self._changed)
        self._client.start_async()

    def _changed(self, state: str) -> None:
        if state == KazooState.LOST:
            self.lost_count += 1
            self._is_refused = self._client.client_state == KeeperState.AUTH_FAILED
        self._watched.forget_all()
        self._stirred()

    def forget(self) -> None:
        """Read all nodes again next time."""
        self._watched.forget_all()

    @contextlib.contextmanager
    def tree(self, timeout_s: float) -> Iterator[Tree]:
        """The nodes, with ``timeout_s`` for all requests. Nodes that are read are watched, and read again
        only after a change.

        Raises ``SessionBroke`` (retriable), and ``DiscoveryError`` (fatal) if ZooKeeper does not answer.
        """
        with translate_errors(self._discovery, timeout_s, self._warnings):
            try:
                yield Tree(self._client, Deadline.after(timeout_s), self._watched)
            except _BROKEN as error:
                raise SessionBroke(
                    f"{place_of(self._discovery)}: the session broke{self._warnings.hint}; check that "
                    "ZooKeeper is up"
                ) from error

    def check(self) -> None:
        """Raise ``DiscoveryError`` (fatal) for a session that cannot reconnect, because its login was
        refused."""
        if self._is_refused:
            raise DiscoveryError(
                f"{place_of(self._discovery)}: ZooKeeper refuses the login; check the option zookeeper.auth"
            )

    def close(self) -> None:
        """End the session and remove its ephemeral nodes."""
        closing = threading.Thread(target=self._close, name="kafkawire-leaving", daemon=True)
        closing.start()
        closing.join(CLOSE_TIMEOUT_S)

    def _close(self) -> None:
        with contextlib.suppress(Exception):
            self._client.stop()
            self._client.close()


#: Seconds that a JVM consumer waits for a partition before it stops reading: four times
#: (``rebalance.retries.max``) two seconds (``rebalance.backoff.ms``).
JVM_WAIT_S: Final = 8.0
#: Most consumers of one group, and bytes of all their registrations: more are another program's work.
CONSUMERS_COUNT_MAX: Final = 10_000
REGISTRATIONS_BYTES_MAX: Final = 64 << 20


class Ownership:
    """The partitions of one consumer: ``partitions`` are those that it owns, and those that are ``held`` are
    given up only when the session is lost.

    A node that is ``abandoned`` is the owner node of a partition that is assigned to this consumer, if the
    owner is not registered, or the registration of a consumer without a ZooKeeper session. ZooKeeper removes
    the nodes of a consumer that ends; such nodes remain if a tree was copied or restored, or if another
    program made them.
    """

    def __init__(self, group: str, consumer: str, topics: Sequence[str], thread_count: int) -> None:
        self._root = f"{CONSUMERS}/{group}"
        self._group, self._consumer = group, consumer
        self._topics, self._thread_count = topics, thread_count
        self._threads = {thread.encode() for thread in threads_of(consumer, thread_count)}
        self._claim_count = 0
        #: Since when it holds partitions that are assigned to other consumers.
        self.wanted_s: float | None = None
        self._without_session: list[str] = []
        self.partitions: dict[TopicPartition, OwnedPartition] = {}
        self.others: dict[TopicPartition, str] = {}
        self.unregistered: list[str] = []
        self.abandoned: list[str] = []
        self.is_asked_to_leave = False
        self.held: frozenset[TopicPartition] = frozenset()

    def lose(self) -> None:
        """Handle a lost session: its nodes are gone, and other consumers may be the owners by now."""
        if self.partitions:
            LOG.warning(
                "group %s: the session of %s was lost, and with it %s: other consumers may read again what "
                "it has not committed there",
                quote(self._group),
                printable(self._consumer),
                counted(len(self.partitions), "partition"),
            )
        self.partitions.clear()

    def balance(self, tree: Tree) -> None:
        """Take over the partitions that are assigned to the consumer now, if their owners gave them up."""
        self.is_asked_to_leave = tree.exists(leaving_path(self._group, self._consumer))
        tree.claim({f"{self._root}/ids/{self._consumer}": subscription(self._topics, self._thread_count)})
        share = self._look(tree).share_of(self._consumer)
        self._give_up(tree, [tp for tp in self.partitions if tp not in share])
        self._claim(tree, share)

    def commit(
        self, tree: Tree, offsets: Mapping[TopicPartition, tuple[int, OwnedPartition]]
    ) -> list[TopicPartition]:
        """Commit offsets, except those of partitions that were lost since, and return these partitions."""
        mine = {tp: offset for tp, (offset, own) in offsets.items() if self.partitions.get(tp) == own}
        tree.put({offset_path(self._group, tp): str(offset).encode() for tp, offset in mine.items()})
        return [tp for tp in offsets if tp not in mine]

    def _look(self, tree: Tree) -> GroupView:
        ids, topics = (names or [] for names in tree.children([f"{self._root}/ids", TOPICS]))
        if len(ids) > CONSUMERS_COUNT_MAX:
            raise DiscoveryError(
                f"node {printable(self._root)}/ids registers {counted(len(ids), 'consumer')}, and a group "
                f"has at most {CONSUMERS_COUNT_MAX}: stop the program that wrote them"
            )
        paths = {f"{self._root}/ids/{name}": name for name in ids}
        nodes = {
            path: node for path, node in zip(paths, self._registrations(tree, paths), strict=True) if node
        }
        there = set(topics)
        topics = [topic for topic in self._topics if topic in there]
        counts: dict[str, dict[str, int]] = {}
        for path, node in nodes.items():
            # Topics that it reads besides do not matter here, and a filter may match any number of them.
            of_all = thread_counts(path, node.data, topics)
            counts[paths[path]] = {topic: of_all[topic] for topic in topics if topic in of_all}
        self._without_session = [
            f"node {printable(path)} registers a consumer but belongs to no ZooKeeper session: the "
            "partitions of that consumer are not read"
            for path, node in nodes.items()
            if not node.is_ephemeral and any(counts[paths[path]].get(topic) for topic in self._topics)
        ]
        partitions = partition_counts(tree, topics)
        self.unregistered = [topic for topic in self._topics if not partitions.get(topic)]
        return GroupView(counts, partitions)

    def _registrations(self, tree: Tree, paths: Iterable[str]) -> Iterator[Node | None]:
        size = 0
        for node in tree.nodes(paths):
            size += len(node.data) if node else 0
            if size > REGISTRATIONS_BYTES_MAX:
                raise DiscoveryError(
                    f"the nodes in {printable(self._root)}/ids hold more than {REGISTRATIONS_BYTES_MAX} "
                    "bytes, which is too much for a group: stop the program that wrote them"
                )
            yield node

    def _give_up(self, tree: Tree, partitions: Sequence[TopicPartition]) -> None:
        """Give up partitions, except for those that are held."""
        free = [tp for tp in partitions if tp not in self.held]
        tree.remove(self._owner_path(tp) for tp in free)
        for partition in free:
            del self.partitions[partition]
        now_s = time.monotonic()
        if len(free) < len(partitions):
            self.wanted_s = self.wanted_s or now_s
            return
        if self.wanted_s is not None and now_s - self.wanted_s >= JVM_WAIT_S:
            LOG.warning(
                "group %s: other consumers waited %.0f s for a batch to end, and JVM consumers give up after "
                "%g s: make batches and triggers shorter, or raise rebalance.retries.max of these consumers",
                quote(self._group),
                now_s - self.wanted_s,
                JVM_WAIT_S,
            )
        self.wanted_s = None

    def _claim(self, tree: Tree, share: Mapping[TopicPartition, str]) -> None:
        owners = dict(zip(share, tree.data(map(self._owner_path, share)), strict=True))
        foreign = {tp: owner for tp, owner in owners.items() if owner not in (None, *self._threads)}
        self.others = {tp: printable(owner) for tp, owner in foreign.items()}
        without_consumer = self._without_consumer(tree, foreign)
        self.abandoned = [*self._without_session, *without_consumer]
        kept = {tp for tp in self.partitions if tp not in share or owners[tp] in self._threads}
        self.partitions = {tp: own for tp, own in self.partitions.items() if tp in kept}
        moved = [tp for tp in kept if tp in share and owners[tp] != share[tp].encode()]
        tree.put({self._owner_path(tp): share[tp].encode() for tp in moved})
        self._take(tree, {tp: share[tp] for tp in share if tp not in kept and tp not in self.others})

    def _without_consumer(self, tree: Tree, owners: Mapping[TopicPartition, bytes | None]) -> list[str]:
        """A line for each owner without a registered consumer. A consumer registers before it claims, and its
        nodes disappear together, so registrations are read after owners."""
        if not owners:
            return []
        [names] = tree.children([f"{self._root}/ids"], fresh=True)
        registered = set(names or ())
        consumers = {
            tp: (owner or b"").decode("utf-8", "replace").rpartition("-")[0] for tp, owner in owners.items()
        }
        return [
            f"node {printable(self._owner_path(tp))} names the owner {quote(owners[tp])}, but no consumer "
            f"{quote(consumer)} is registered in {printable(self._root)}/ids: {tp} is not read"
            for tp, consumer in consumers.items()
            if consumer not in registered
        ]

    def _take(self, tree: Tree, wanted: Mapping[TopicPartition, str]) -> None:
        """Claim partitions without an owner, or with a thread of this consumer, if the response was lost."""
        paths = {self._owner_path(tp): tp for tp in wanted}
        is_new = tree.claim({path: wanted[tp].encode() for path, tp in paths.items()})
        before = [path for path in paths if not is_new[path]]
        lost = {
            path for path, owner in zip(before, tree.data(before), strict=True) if owner not in self._threads
        }
        self.others |= {paths[path]: "another consumer" for path in paths if path in lost}
        self.partitions.update(
            self._take_claimed(tree, [tp for path, tp in paths.items() if path not in lost])
        )

    def _take_claimed(
        self, tree: Tree, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, OwnedPartition]:
        """Partitions that are owned from now on, with their committed offsets."""
        paths = {offset_path(self._group, tp): tp for tp in partitions}
        owned = {}
        for (path, partition), data in zip(paths.items(), tree.data(paths, fresh=True), strict=True):
            self._claim_count += 1
            offset = None if data is None else offset_of(path, data, strict=True)
            owned[partition] = OwnedPartition(partition, self._claim_count, offset)
        return owned

    def _owner_path(self, partition: TopicPartition) -> str:
        return f"{self._root}/owners/{partition.topic}/{partition.name}"


#: Most threads of one consumer for one topic; a node with more is rejected.
THREADS_COUNT_MAX: Final = 10_000
_FILTER: Final = re.compile(r"([*!])([0-9]{1,5})\1(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class GroupView:
    """A snapshot of a group, as a member sees it.

    ``thread_counts`` has the number of threads by consumer id and topic, ``partition_counts`` the number of
    partitions by topic and broker id.
    """

    thread_counts: Mapping[str, Mapping[str, int]]
    partition_counts: Mapping[str, Mapping[int, int]]

    def share_of(self, consumer: str) -> dict[TopicPartition, str]:
        """Partitions that are assigned to a consumer, each with the thread that reads it."""
        share: dict[TopicPartition, str] = {}
        for topic in self.thread_counts.get(consumer, ()):
            counts = self.partition_counts.get(topic, {})
            partitions = [
                TopicPartition(topic, number, broker) for broker in counts for number in range(counts[broker])
            ]
            by_name = {tp.name: tp for tp in partitions}
            counts_of_topic = {name: item.get(topic, 0) for name, item in self.thread_counts.items()}
            shares = assignment(by_name, counts_of_topic, consumer)
            share.update((by_name[name], thread) for thread, names in shares.items() for name in names)
        return share


def assignment(
    partitions: Collection[str], counts: Mapping[str, int], consumer: str
) -> dict[str, tuple[str, ...]]:
    """Assign the broker-partitions of a topic to the threads of ``consumer``.

    ``counts`` has the number of threads of each consumer. Threads are counted, not listed, because a node of
    25 bytes may announce 10,000 threads, and there may be many consumers.
    """
    parts = sorted(partitions, key=java_order)
    size, longer_count = divmod(len(parts), sum(counts.values()) or 1)
    shares = {}
    for thread, location in _places(consumer, counts).items():
        start = location * size + min(location, longer_count)
        shares[thread] = tuple(parts[start : start + size + (location < longer_count)])
    return shares


def _places(consumer: str, counts: Mapping[str, int]) -> dict[str, int]:
    """The index of each thread of a consumer in the sorted threads of a topic.

    All threads of another consumer sort before, or all after, a thread of this consumer, because their names
    differ before the number of the thread begins. So they are counted together. The exception is a consumer
    whose id and a hyphen are a prefix of this consumer's id, as ``c`` and ``c-5``: its threads are compared
    one by one with the rest of this consumer's id and a hyphen.
    """
    before = 0
    runs = [(java_order(thread), 1, thread) for thread in threads_of(consumer, counts.get(consumer, 0))]
    for other, count in counts.items():
        if other == consumer:
            continue
        if f"{consumer}-".startswith(f"{other}-"):
            rest = java_order(f"{consumer[len(other) + 1 :]}-")
            before += sum(java_order(str(number)) < rest for number in range(count))
        else:
            runs.append((java_order(f"{other}-"), count, ""))
    places = {}
    for _, count, thread in sorted(runs):
        if thread:
            places[thread] = before
        before += count
    return places


def java_order(text: str) -> bytes:
    """A sort key for the order of Java's strings, in which ``0-10`` is before ``0-2``."""
    return text.encode("utf-16-be", "surrogatepass")


def threads_of(consumer: str, count: int) -> list[str]:
    """Names of the threads of a consumer, as in owner nodes."""
    return [f"{consumer}-{index}" for index in range(count)]


def subscription(topics: Iterable[str], thread_count: int) -> bytes:
    """The registration of a consumer that reads topics by name, in the format of the JVM consumers."""
    return (
        "{ " + ",".join(f"{json.dumps(topic, ensure_ascii=False)}: {thread_count}" for topic in topics) + " }"
    ).encode()


def thread_counts(path: str, data: bytes, topics: Collection[str]) -> dict[str, int]:
    """Numbers of threads by topic, from the data of a consumer's node ``path``.

    ``topics`` are all topics of the cluster. Raises ``OptionError`` (fatal) for a consumer of Kafka 0.8, and
    ``DiscoveryError`` (fatal) for data that no consumer of 0.7 can read.
    """
    text = data.decode("utf-8", "replace")
    if match := _FILTER.fullmatch(text.strip()):
        marker, count, expression = match.groups()
        picked = _match_topics(path, expression, topics, wanted=marker == "*")
        return dict.fromkeys(picked, _check_count(path, data, int(count)))
    try:
        counts = json.loads(text)
    except (ValueError, RecursionError):
        raise _unreadable(path, data) from None
    if isinstance(counts, dict) and {"version", "subscription"} <= counts.keys():
        raise OptionError(
            f"node {printable(path)} belongs to a consumer of Kafka 0.8, which assigns partitions by other "
            "names: give this query a group of its own (kafka.group.id)"
        )
    if not isinstance(counts, dict):
        raise _unreadable(path, data)
    return {topic: _check_count(path, data, count) for topic, count in counts.items()}


def _check_count(path: str, data: bytes, count: Any) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= THREADS_COUNT_MAX:
        raise _unreadable(path, data)
    return count


def _unreadable(path: str, data: bytes) -> DiscoveryError:
    return DiscoveryError(
        f"node {printable(path)} holds {quote(data[:200])}, which no consumer of 0.7 can read: stop the "
        "program that wrote it"
    )


def _match_topics(path: str, expression: str, topics: Collection[str], *, wanted: bool) -> list[str]:
    # TopicFilter converts it to a Java regular expression in this way.
    text = re.sub(r"""^["']+|["']+$""", "", expression.strip().replace(",", "|").replace(" ", ""))
    try:
        pattern = JavaPattern(f"^(?:{text})$")
        return [topic for topic in sorted(topics) if pattern.is_found_in(topic) is wanted]
    except PatternError as error:
        raise DiscoveryError(
            f"node {printable(path)}: {quote(expression)} is not a supported regular expression, so the "
            f"topics of that consumer are unknown: {printable(error)}; stop it, or use another group"
        ) from error
