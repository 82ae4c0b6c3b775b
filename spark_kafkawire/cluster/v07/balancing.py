"""How a consumer group of Kafka 0.7 shares the partitions of its topics: the rule of its own consumers. Pure.

    {"T": 2}  of each consumer ──► its threads  C-0, C-1            ─┐ both sorted as Java sorts strings
    /brokers/topics/T/B: 3     ──► broker-partitions  B-0, B-1, B-2  ─┘
        threads   c1-0        c1-1    c2-0
        parts     0-0 0-1     1-0     1-1        chunks in that order, the first ones by one longer

Each member computes it by itself, from what ZooKeeper shows to it; members that see the same agree. Each
topic is shared for itself, among the threads that read it.

======================  ========================================================================
data of ids/C           consumer C reads
======================  ========================================================================
``{ "a": 2,"b": 1 }``   topic a in two threads, b in one
``*1*cc-.*``            in one thread all topics whose whole name the regular expression matches
``!1!cc-.*``            in one thread all others
======================  ========================================================================

Source: ``zk_tree.json`` of ``tests/golden/kafka-0.7.2``; ZookeeperConsumerConnector.rebalance, TopicCount and
TopicFilter of Kafka 0.7.2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...errors import DiscoveryError, OptionError, quoted, shown
from ...model import TopicPartition
from ...options.java_pattern import JavaPattern, PatternError

#: Threads of one consumer for one topic; more are a mistake, and cost memory here.
THREADS_COUNT_MAX: Final = 10_000
_FILTER: Final = re.compile(r"([*!])([0-9]{1,5})\1(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class GroupView:
    """What a member sees of its group at one moment.

    ``thread_counts`` has, by consumer id and topic, in how many threads the consumer reads the topic;
    ``partition_counts``, by topic and broker id, how many partitions the broker has of it.
    """

    thread_counts: Mapping[str, Mapping[str, int]]
    partition_counts: Mapping[str, Mapping[int, int]]

    def share_of(self, consumer: str) -> dict[TopicPartition, str]:
        """The logs that a consumer shall own, and the thread of it that reads each."""
        share: dict[TopicPartition, str] = {}
        for topic in self.thread_counts.get(consumer, ()):
            counts = self.partition_counts.get(topic, {})
            logs = [
                TopicPartition(topic, number, broker) for broker in counts for number in range(counts[broker])
            ]
            mine = threads_of(consumer, self.thread_counts[consumer][topic])
            shares = assignment([log.name for log in logs], self._threads(topic))
            by_name = {log.name: log for log in logs}
            share.update((by_name[name], thread) for thread in mine for name in shares[thread])
        return share

    def _threads(self, topic: str) -> list[str]:
        return [
            thread
            for consumer, counts in self.thread_counts.items()
            for thread in threads_of(consumer, counts.get(topic, 0))
        ]


def assignment(partitions: Collection[str], threads: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Which of a topic's broker-partitions each thread of its consumers reads."""
    if not threads:
        return {}
    parts = sorted(partitions, key=java_order)
    size, longer_count = divmod(len(parts), len(threads))
    shares = {}
    start = 0
    for index, thread in enumerate(sorted(threads, key=java_order)):
        stop = start + size + (index < longer_count)
        shares[thread] = tuple(parts[start:stop])
        start = stop
    return shares


def java_order(text: str) -> bytes:
    """By this Java sorts strings, and so ``0-10`` before ``0-2``."""
    return text.encode("utf-16-be", "surrogatepass")


def threads_of(consumer: str, count: int) -> list[str]:
    """The names of a consumer's threads, as its owner nodes hold them."""
    return [f"{consumer}-{index}" for index in range(count)]


def subscription(topics: Iterable[str], thread_count: int) -> bytes:
    """What a consumer registers that reads topics by their names, as the JVM's consumers write it."""
    return (
        "{ " + ",".join(f"{json.dumps(topic, ensure_ascii=False)}: {thread_count}" for topic in topics) + " }"
    ).encode()


def thread_counts(path: str, data: bytes, topics: Collection[str]) -> dict[str, int]:
    """In how many threads a consumer reads each topic, by the data of its node ``path``.

    ``topics`` are all that there are. Raises ``OptionError`` (fatal) for a consumer of Kafka 0.8,
    ``DiscoveryError`` (fatal) for what no consumer of 0.7 can read either.
    """
    text = data.decode("utf-8", "replace")
    if found := _FILTER.fullmatch(text.strip()):
        marker, count, expression = found.groups()
        picked = _matching(path, expression, topics, wanted=marker == "*")
        return dict.fromkeys(picked, _checked(path, data, int(count)))
    try:
        counts = json.loads(text)
    except (ValueError, RecursionError):
        raise _unreadable(path, data) from None
    if isinstance(counts, dict) and {"version", "subscription"} <= counts.keys():
        raise OptionError(
            f"node {shown(path)} is of a consumer of Kafka 0.8, which shares partitions by other names: "
            "let this query join a group of its own (kafka.group.id)"
        )
    if not isinstance(counts, dict):
        raise _unreadable(path, data)
    return {topic: _checked(path, data, count) for topic, count in counts.items()}


def _checked(path: str, data: bytes, count: Any) -> int:
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= THREADS_COUNT_MAX:
        raise _unreadable(path, data)
    return count


def _unreadable(path: str, data: bytes) -> DiscoveryError:
    return DiscoveryError(
        f"node {shown(path)} holds {quoted(data[:200])}, by which no consumer of 0.7 can share partitions: "
        "stop what has written it"
    )


def _matching(path: str, expression: str, topics: Collection[str], *, wanted: bool) -> list[str]:
    # As TopicFilter makes it a regular expression of Java's.
    text = re.sub(r"""^["']+|["']+$""", "", expression.strip().replace(",", "|").replace(" ", ""))
    try:
        pattern = JavaPattern(f"^(?:{text})$")
        return [topic for topic in sorted(topics) if pattern.is_found_in(topic) is wanted]
    except PatternError as error:
        raise DiscoveryError(
            f"node {shown(path)}: {quoted(expression)} is not a regular expression that is read here, so "
            f"nobody knows which topics that consumer reads: {shown(error)}"
        ) from error
