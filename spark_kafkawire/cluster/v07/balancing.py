"""Assignment of partitions in a consumer group of Kafka 0.7, by the rule of its own consumers. Pure.

    {"T": 2}  of each consumer ──► its threads  C-0, C-1            ─┐ both sorted as Java sorts strings
    /brokers/topics/T/B: 3     ──► broker-partitions  B-0, B-1, B-2  ─┘
        threads   c1-0        c1-1    c2-0
        parts     0-0 0-1     1-0     1-1        chunks in that order; the first ones have one more

Each member computes the assignment from the nodes that it reads in ZooKeeper; members that read the same
nodes agree. Each topic is assigned separately, among the threads that read it.

======================  ========================================================================
data of ids/C           consumer C reads
======================  ========================================================================
``{ "a": 2,"b": 1 }``   topic a in two threads, b in one
``*1*cc-.*``            all topics whose full name matches the regular expression, in one thread
``!1!cc-.*``            all other topics, in one thread
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

from spark_kafkawire.errors import DiscoveryError, OptionError, printable, quoted
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options.java_pattern import JavaPattern, PatternError

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
            counts_of_topic = {name: each.get(topic, 0) for name, each in self.thread_counts.items()}
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
    for thread, place in _places(consumer, counts).items():
        start = place * size + min(place, longer_count)
        shares[thread] = tuple(parts[start : start + size + (place < longer_count)])
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
            f"node {printable(path)} belongs to a consumer of Kafka 0.8, which assigns partitions by other "
            "names: give this query a group of its own (kafka.group.id)"
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
        f"node {printable(path)} holds {quoted(data[:200])}, which no consumer of 0.7 can read: stop the "
        "program that wrote it"
    )


def _matching(path: str, expression: str, topics: Collection[str], *, wanted: bool) -> list[str]:
    # TopicFilter converts it to a Java regular expression in this way.
    text = re.sub(r"""^["']+|["']+$""", "", expression.strip().replace(",", "|").replace(" ", ""))
    try:
        pattern = JavaPattern(f"^(?:{text})$")
        return [topic for topic in sorted(topics) if pattern.is_found_in(topic) is wanted]
    except PatternError as error:
        raise DiscoveryError(
            f"node {printable(path)}: {quoted(expression)} is not a supported regular expression, so the "
            f"topics of that consumer are unknown: {printable(error)}; stop it, or use another group"
        ) from error
