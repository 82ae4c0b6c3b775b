"""What one broker knows of a topic, learned from the broker itself.

A FETCH of no bytes from offset -1, which no log has, is answered with an error code only:

====  =====================================================================
code  the partition
====  =====================================================================
0     is configured on this broker and was never written: there is no log
1     is configured, and there is a log, for the offset is out of its range
3     is not configured: its number is the partition count or above
-1    cannot be: the topic's name is illegal
====  =====================================================================

OFFSETS would not do: it is answered ``[0]`` for a topic that is not there, and a partition that
is not there closes the connection. Brokers before 0.7.1 create a topic that is fetched.

Source: ``fetch/*`` and ``multifetch/mixed`` of ``tests/golden/kafka-0.7.2``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...errors import DiscoveryError, shown
from ...model import Broker, TopicPartition
from ...options import NetOptions
from ...protocol.v07 import FetchRequest, MultiFetchRequest
from ...protocol.v07.error_codes import ErrorCode, broker_error
from ..asking import ask

#: Partitions asked for in the first request for a topic; the next requests ask for twice as many.
FIRST_RUN_COUNT: Final = 16
#: FETCHes in one request; the count is an int16 on the wire.
FETCH_COUNT_MAX: Final = 4096
#: Partitions of one topic on one broker. Each is a folder there: more are a broker's lie.
PARTITION_COUNT_MAX: Final = 16_384

_CONFIGURED: Final = frozenset((ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE))


@dataclass(frozen=True, slots=True)
class TopicOnBroker:
    """``partition_count`` partitions are configured; ``exists`` when there is a log of one."""

    partition_count: int
    exists: bool


def probe(broker: Broker, topics: Sequence[str], net: NetOptions) -> dict[str, TopicOnBroker]:
    """How many partitions a broker is configured to have of each topic, and whether it has data.

    Raises ``BrokerError`` (fatal) for an illegal topic name, ``DiscoveryError`` (fatal) for an
    impossible partition count, and what ``ask`` raises.
    """
    codes: dict[str, list[int]] = {topic: [] for topic in topics}
    run_count = FIRST_RUN_COUNT
    while open_topics := [topic for topic in codes if _CONFIGURED.issuperset(codes[topic])]:
        runs = [_run(broker, topic, len(codes[topic]), run_count) for topic in open_topics]
        answers = iter(partition_codes(broker, [log for run in runs for log in run], net))
        for topic, run in zip(open_topics, runs, strict=True):
            codes[topic] += [next(answers) for _ in run]
        run_count *= 2
    return {topic: _of_codes(broker, topic, codes[topic]) for topic in topics}


def partition_codes(broker: Broker, logs: Sequence[TopicPartition], net: NetOptions) -> list[int]:
    """The error code of each log on a broker, as the table above has them.

    Raises what ``ask`` raises.
    """
    fetches = [FetchRequest(log.topic, log.partition, offset=-1, max_bytes=0) for log in logs]
    requests = [
        MultiFetchRequest(tuple(fetches[pos : pos + FETCH_COUNT_MAX]))
        for pos in range(0, len(fetches), FETCH_COUNT_MAX)
    ]
    codes = []
    for body in ask(broker, requests, net, _place):
        codes += [reply.error_code for reply in body.replies]
    return codes


def _run(broker: Broker, topic: str, first: int, count: int) -> list[TopicPartition]:
    if first >= PARTITION_COUNT_MAX:
        raise DiscoveryError(
            f"{broker} has {first} partitions or more of topic {shown(topic)}: that cannot be"
        )
    return [TopicPartition(topic, partition, broker.id) for partition in range(first, first + count)]


def _of_codes(broker: Broker, topic: str, codes: list[int]) -> TopicOnBroker:
    count = next(partition for partition, code in enumerate(codes) if code not in _CONFIGURED)
    if codes[count] != ErrorCode.WRONG_PARTITION:
        raise broker_error(codes[count], f"{TopicPartition(topic, count, broker.id)} on {broker}")
    return TopicOnBroker(count, exists=ErrorCode.OFFSET_OUT_OF_RANGE in codes[:count])


def _place(request: Any) -> str:
    return f"partitions of topic {shown(request.fetches[0].topic)}"
