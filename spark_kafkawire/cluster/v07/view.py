"""Brokers and partitions of a cluster of Kafka 0.7, from ZooKeeper or from the brokers themselves.

    cluster = view(options.discovery, options.net)
    partitions = partitions_of_topics(cluster, options.discovery, ["debian-gzip"], options.net)
    bounds = all_bounds(cluster, partitions, options.net)

Brokers register in ZooKeeper:

====================  =====================================================================
node                  data
====================  =====================================================================
/brokers/ids/N        ``creator:host:port`` of broker N; exists while it is alive
/brokers/topics/T/N   number of partitions of topic T on broker N
====================  =====================================================================

While the session of a broker is expired, ZooKeeper has neither its own registration nor those of its topics,
although the broker serves requests. Only an expected number of brokers (``expectedBrokers``), or a partition
that was read before, shows that a broker is missing.

Without ZooKeeper, a FETCH of no bytes from offset -1, which no partition contains, returns only an error
code:

====  =====================================================================
code  the partition
====  =====================================================================
0     is configured on this broker and was never written: it has no partition
1     is configured and has a partition: the offset is out of its range
3     is not configured: its number is not below the partition count
-1    cannot exist: the name of the topic is illegal
====  =====================================================================

OFFSETS is not suitable: it returns ``[0]`` for a topic that does not exist, and closes the connection for a
partition that does not exist. Brokers before 0.7.1 create a topic that is fetched.

Source: ``zk_tree.json``, ``fetch/*`` and ``multifetch/mixed`` of ``tests/golden/kafka-0.7.2``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from spark_kafkawire.errors import (
    BrokersMissingError,
    DiscoveryError,
    OptionError,
    list_some,
    printable,
    quote,
    unknown_topics,
)
from spark_kafkawire.model import Broker, ClusterView, TopicPartition
from spark_kafkawire.net.retry import call_with_retries
from spark_kafkawire.options import Discovery, ExpectedBrokers, NetOptions
from spark_kafkawire.protocol.v07 import ErrorCode, FetchRequest, MultiFetchRequest, broker_error

from ..asking import ask, side_by_side
from .zookeeper_client import Tree, check_none_is_later, read_tree


def view(discovery: Discovery, net: NetOptions) -> ClusterView:
    """The cluster now. A view from ``broker.list`` has brokers without partitions.

    Waits for expected brokers. Raises ``DiscoveryError`` (fatal),
    ``BrokersMissingError`` when the retries are used up.
    """
    return call_with_retries(lambda: expected_view(discovery, net), net.retry)


def expected_view(discovery: Discovery, net: NetOptions) -> ClusterView:
    """The cluster as it is registered now. Raises as ``current_view`` and ``check_brokers``."""
    result = current_view(discovery, net)
    check_brokers(discovery.expected_brokers, result.brokers, "registered in ZooKeeper")
    return result


def current_view(discovery: Discovery, net: NetOptions) -> ClusterView:
    """The cluster as it is registered now, without waiting for brokers.

    Raises ``BrokersMissingError`` (retriable) if no broker is registered, ``DiscoveryError`` (fatal).
    """
    if discovery.zookeeper_connect is not None:
        result = discover(discovery, net.discovery_timeout_s)
    else:
        result = ClusterView(discovery.broker_list, ())
    net.connection.report_unmatched(result.brokers)
    return result


def partitions_of_topics(
    view: ClusterView, discovery: Discovery, topics: Sequence[str], net: NetOptions
) -> tuple[TopicPartition, ...]:
    """Partitions of the topics, sorted; with ZooKeeper also those whose broker is not alive.

    Raises ``UnknownTopicError`` (fatal), and without ZooKeeper, or with ``expectedBrokers``, the errors of
    ``probe``.
    """
    if discovery.zookeeper_connect is None:
        result = side_by_side(view.brokers, lambda broker: probe(broker, topics, net))
        partitions = _list_configured(result, only_existing=True)
    else:
        wanted = set(topics)
        partitions = tuple(tp for tp in view.partitions if tp.topic in wanted)
        if discovery.expected_brokers is not None:
            partitions = tuple(sorted({*partitions, *unregistered_partitions(view, topics, net)}))
    if missing := sorted(set(topics) - {tp.topic for tp in partitions}):
        raise unknown_topics(missing, view.topics)
    return partitions


def partitions_to_write(
    view: ClusterView, discovery: Discovery, topics: Sequence[str], net: NetOptions
) -> dict[str, tuple[TopicPartition, ...]]:
    """Partitions of live brokers to which each topic can be written, sorted by broker and partition.

    A topic that ZooKeeper does not know yet has partition 0 on every live broker, as in the 0.7 producer:
    after the first write the broker registers all of its partitions. Without ZooKeeper, raises as ``probe``
    does.
    """
    if discovery.zookeeper_connect is None:
        result = side_by_side(view.brokers, lambda broker: probe(broker, topics, net))
        partitions = _list_configured(result, only_existing=False)
    else:
        alive = {broker.id for broker in view.brokers}
        partitions = tuple(tp for tp in view.partitions if tp.broker in alive)
    by_broker = sorted(partitions, key=attrgetter("broker", "partition"))
    return {
        topic: tuple(tp for tp in by_broker if tp.topic == topic)
        or tuple(TopicPartition(topic, 0, broker.id) for broker in view.brokers)
        for topic in topics
    }


def unregistered_partitions(
    view: ClusterView, topics: Iterable[str], net: NetOptions, brokers: Iterable[Broker] | None = None
) -> tuple[TopicPartition, ...]:
    """Partitions on live brokers that are not registered yet, from requests to the brokers.

    A broker that starts registers itself first, and then its topics one by one. Raises as ``probe``.
    """
    registered = {(tp.topic, tp.broker) for tp in view.partitions}
    asked = {
        broker: unregistered
        for broker in (view.brokers if brokers is None else brokers)
        if (unregistered := [topic for topic in topics if (topic, broker.id) not in registered])
    }
    return _list_configured(side_by_side(asked, lambda broker: probe(broker, asked[broker], net)), True)


def _list_configured(
    result: Mapping[Broker, Mapping[str, TopicOnBroker]], only_existing: bool
) -> tuple[TopicPartition, ...]:
    """Configured partitions of brokers that have the topic, as ZooKeeper would list them."""
    return tuple(
        sorted(
            TopicPartition(topic, partition, broker.id)
            for broker, topics in result.items()
            for topic, on_broker in topics.items()
            for partition in range(on_broker.partition_count)
            if on_broker.exists or not only_existing
        )
    )


IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"

#: Most partitions of one cluster. Each is a folder of a broker, so a larger number is wrong.
PARTITIONS_COUNT_MAX: Final = 250_000

#: A port, and the end of the creator in a registration: ``-`` and a start time.
_PORT: Final = re.compile(r"[0-9]{1,5}")
_CREATED: Final = re.compile(r"-[0-9]+:")
#: Characters that no host name contains.
_NO_HOST: Final = re.compile(r"[\s/]")


def discover(discovery: Discovery, timeout_s: float) -> ClusterView:
    """Brokers and partitions that are registered in ZooKeeper now.

    Nodes that vanish meanwhile are left out. If the session is lost, a new session reads everything again,
    all within ``timeout_s``.

    Raises ``DiscoveryError`` (fatal), ``OptionError`` (fatal) for an impossible address.
    """
    return read_tree(discovery, timeout_s, _cluster_view)


def _cluster_view(tree: Tree) -> ClusterView:
    broker_names, topics = tree.children([IDS, TOPICS])
    if not broker_names:
        raise _why_empty(tree, broker_names)
    brokers = tuple(sorted(_brokers(tree, broker_names)))
    if not brokers:
        raise BrokersMissingError(
            f"no Kafka broker is alive any more: the last one has just left {IDS}; start the brokers, or "
            "correct zookeeper.connect"
        )
    partitions = tuple(
        sorted(
            TopicPartition(topic, partition, broker_id)
            for topic, counts in partition_counts(tree, topics or []).items()
            for broker_id, count in counts.items()
            for partition in range(count)
        )
    )
    return ClusterView(
        brokers, partitions, tuple(sorted({*(topics or ())} - {tp.topic for tp in partitions}))
    )


def _why_empty(tree: Tree, broker_names: list[str] | None) -> DiscoveryError:
    if broker_names is not None:
        return BrokersMissingError(
            f"no Kafka broker is alive: {IDS} is empty; start the brokers, or correct zookeeper.connect"
        )
    if not tree.exists("/"):
        return DiscoveryError(
            "the chroot (the path after the hosts) is not in ZooKeeper; correct zookeeper.connect"
        )
    return DiscoveryError(
        f"no Kafka broker has registered here ({IDS} does not exist): check the chroot (the path after the "
        "hosts)"
    )


def _brokers(tree: Tree, names: list[str]) -> Iterator[Broker]:
    paths = [f"{IDS}/{name}" for name in names]
    registrations = list(tree.data(paths))
    check_none_is_later(registrations)
    for path, name, data in zip(paths, names, registrations, strict=True):
        if data is not None:
            address = _address(data.decode("utf-8", "replace"))
            if not address or not 0 < address[1] < 65536:
                raise _bad_node(path, data, "creator:host:port")
            yield Broker(_broker_id(path, name), *address)


def _address(registration: str) -> tuple[str, int] | None:
    """Host and port of ``creator:host:port``; None for any other text.

    The creator is a host name or address, ``-`` and a start time. Both it and the host may be IPv6 addresses,
    which contain colons. So the creator ends after the first start time, or at the first colon if there is no
    start time.
    """
    rest, _, port = registration.rpartition(":")
    # Every character is examined a few times at most: a single regular expression took cubic time.
    first = max((result.end() for result in _NO_HOST.finditer(rest)), default=0)
    starts = (result.end() for result in _CREATED.finditer(rest))
    start = next((start for start in starts if start >= first), rest.find(":") + 1)
    host = rest[start:]
    if not start or start < first or not host or not _PORT.fullmatch(port):
        return None
    return host.strip("[]"), int(port)


def partition_counts(tree: Tree, topics: Sequence[str]) -> dict[str, dict[int, int]]:
    """Numbers of partitions by topic and broker id. Raises ``DiscoveryError`` (fatal)."""
    holders = tree.children(f"{TOPICS}/{topic}" for topic in topics)
    registered = [
        (topic, name, f"{TOPICS}/{topic}/{name}")
        for topic, names in zip(topics, holders, strict=True)
        for name in names or ()
    ]
    total = 0
    counts: dict[str, dict[int, int]] = {topic: {} for topic in topics}
    for (topic, name, path), data in zip(registered, tree.data(path for *_, path in registered), strict=True):
        if data is not None:
            if not re.fullmatch(rb"[1-9]\d{0,8}", data):
                raise _bad_node(path, data, "a partition count")
            count = int(data)
            total += count
            if total > PARTITIONS_COUNT_MAX:
                raise DiscoveryError(
                    f"{TOPICS} announces {total} partitions or more, at most {PARTITIONS_COUNT_MAX} are "
                    "possible; correct its nodes"
                )
            counts[topic][_broker_id(path, name)] = count
    return counts


def _broker_id(path: str, name: str) -> int:
    if not re.fullmatch(r"0|[1-9][0-9]{0,8}", name):
        raise DiscoveryError(
            f"the name of node {printable(path)} is not a broker id: remove the node, or stop the program "
            "that made it"
        )
    return int(name)


def _bad_node(path: str, data: bytes, expected: str) -> DiscoveryError:
    return DiscoveryError(
        f"node {printable(path)} holds {quote(data)}, which is not {expected}: stop the program that wrote it"
    )


#: Partitions in the first request for a topic; each later request has twice as many.
FIRST_RUN_COUNT: Final = 16
#: FETCHes in one request; the count is an int16 on the wire.
FETCH_COUNT_MAX: Final = 4096
#: Most partitions of one topic on one broker. Each is a folder there, so a broker that reports more is wrong.
PARTITION_COUNT_MAX: Final = 16_384

_CONFIGURED: Final = frozenset((ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE))


@dataclass(frozen=True, slots=True)
class TopicOnBroker:
    """A topic with ``partition_count`` configured partitions; it ``exists`` if one of them has a
    partition."""

    partition_count: int
    exists: bool


def probe(broker: Broker, topics: Sequence[str], net: NetOptions) -> dict[str, TopicOnBroker]:
    """Configured partitions of each topic on a broker, and whether the topics have data.

    Raises ``BrokerError`` (fatal) for an illegal topic name, ``DiscoveryError`` (fatal) for an
    impossible partition count, and the errors of ``ask``.
    """
    codes: dict[str, list[int]] = {topic: [] for topic in topics}
    run_count = FIRST_RUN_COUNT
    while open_topics := [topic for topic in codes if _CONFIGURED.issuperset(codes[topic])]:
        runs = [_run(broker, topic, len(codes[topic]), run_count) for topic in open_topics]
        answers = iter(partition_codes(broker, [tp for run in runs for tp in run], net))
        for topic, run in zip(open_topics, runs, strict=True):
            codes[topic] += [next(answers) for _ in run]
        run_count *= 2
    return {topic: _interpret_codes(broker, topic, codes[topic]) for topic in topics}


def partition_codes(broker: Broker, partitions: Sequence[TopicPartition], net: NetOptions) -> list[int]:
    """Error codes of partitions on a broker, as in the table above.

    Raises the errors of ``ask``.
    """
    fetches = [FetchRequest(tp.topic, tp.partition, offset=-1, max_bytes=0) for tp in partitions]
    requests = [
        MultiFetchRequest(tuple(fetches[pos : pos + FETCH_COUNT_MAX]))
        for pos in range(0, len(fetches), FETCH_COUNT_MAX)
    ]
    codes = []
    for body in ask(
        broker, requests, net, lambda request: f"partitions of topic {printable(request.fetches[0].topic)}"
    ):
        codes += [response.error_code for response in body.responses]
    return codes


def _run(broker: Broker, topic: str, first: int, count: int) -> list[TopicPartition]:
    if first >= PARTITION_COUNT_MAX:
        raise DiscoveryError(
            f"{broker} reports {first} or more partitions of topic {printable(topic)}, and at most "
            f"{PARTITION_COUNT_MAX} are supported: correct num.partitions there"
        )
    return [TopicPartition(topic, partition, broker.id) for partition in range(first, first + count)]


def _interpret_codes(broker: Broker, topic: str, codes: list[int]) -> TopicOnBroker:
    count = next(partition for partition, code in enumerate(codes) if code not in _CONFIGURED)
    if codes[count] != ErrorCode.WRONG_PARTITION:
        raise broker_error(codes[count], f"{TopicPartition(topic, count, broker.id)} on {broker}")
    return TopicOnBroker(count, exists=ErrorCode.OFFSET_OUT_OF_RANGE in codes[:count])


#: Most ids in one error message.
_IDS_COUNT_MAX: Final = 20


def check_brokers(expected: ExpectedBrokers | None, brokers: Iterable[Broker], where: str) -> None:
    """Compare the option ``expectedBrokers`` with the brokers that are ``where``.

    Raises ``BrokersMissingError`` (retriable) for missing brokers, ``OptionError`` (fatal) for unexpected
    ones.
    """
    result = {broker.id for broker in brokers}
    if expected is None:
        return
    if isinstance(expected, int):
        missing, others = len(result) < expected, len(result) > expected
        wanted = f"{len(result)} of {expected} brokers"
    else:
        missing, others = not result.issuperset(expected), not result.issubset(expected)
        wanted = f"all but {list_ids(set(expected) - result)}"
    there = f"{where}: {list_ids(result)}"
    if missing:
        raise BrokersMissingError(f"option expectedBrokers: {wanted} are {there}; start the missing ones")
    if others:
        raise OptionError(
            f"option expectedBrokers: more or other brokers than it expects are {there}; correct "
            "it, or a missing broker may go unnoticed"
        )


def list_ids(ids: Collection[int]) -> str:
    """Broker ids as an error lists them."""
    return list_some(sorted(ids), _IDS_COUNT_MAX) or "none"
