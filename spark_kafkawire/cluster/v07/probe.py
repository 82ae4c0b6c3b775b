"""Partitions of a topic on one broker of Kafka 0.7, as the broker itself reports them, without ZooKeeper.

A FETCH of no bytes from offset -1, which no partition contains, returns only an error code:

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

Source: ``fetch/*`` and ``multifetch/mixed`` of ``tests/golden/kafka-0.7.2``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from spark_kafkawire.errors import DiscoveryError, printable
from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.v07 import FetchRequest, MultiFetchRequest
from spark_kafkawire.protocol.v07.error_codes import ErrorCode, broker_error

from ..asking import ask

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
    return {topic: _of_codes(broker, topic, codes[topic]) for topic in topics}


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
    for body in ask(broker, requests, net, _place):
        codes += [response.error_code for response in body.responses]
    return codes


def _run(broker: Broker, topic: str, first: int, count: int) -> list[TopicPartition]:
    if first >= PARTITION_COUNT_MAX:
        raise DiscoveryError(
            f"{broker} reports {first} or more partitions of topic {printable(topic)}, and at most "
            f"{PARTITION_COUNT_MAX} are supported: correct num.partitions there"
        )
    return [TopicPartition(topic, partition, broker.id) for partition in range(first, first + count)]


def _of_codes(broker: Broker, topic: str, codes: list[int]) -> TopicOnBroker:
    count = next(partition for partition, code in enumerate(codes) if code not in _CONFIGURED)
    if codes[count] != ErrorCode.WRONG_PARTITION:
        raise broker_error(codes[count], f"{TopicPartition(topic, count, broker.id)} on {broker}")
    return TopicOnBroker(count, exists=ErrorCode.OFFSET_OUT_OF_RANGE in codes[:count])


def _place(request: Any) -> str:
    return f"partitions of topic {printable(request.fetches[0].topic)}"
