"""Sizes of records in modern Kafka (0.8 to 4.x), by the batches at some offsets (Fetch): no request tells the
bytes between two offsets.

Each leader gets a small fetch for each partition, pipelined on one connection; the requests to all leaders
are sent in parallel. Bytes are those of the log, as producers compressed them. Only headers of batches are
read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.model import Broker, Leader, SizeSample, TopicPartition
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error
from spark_kafkawire.protocol.modern.fetch import (
    FETCH,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from spark_kafkawire.protocol.modern.limits import NO_TOPIC_ID
from spark_kafkawire.records.log_index import BASE_OFFSET, SIZE, whole_batches

from ..asking import side_by_side
from .metadata import Metadata

#: Bytes of one sample. A batch that is larger comes whole, from Fetch version 3 on.
_SAMPLE_BYTES: Final = 16 << 10
_WHOLE_SINCE: Final = 3
#: The same before that version: a batch that is larger is cut, and gives no sample.
_CUT_BYTES: Final = 1 << 20
#: The time that a broker waits for a record, ms: there is one, perhaps in tiered storage.
_WAIT_MS: Final = 500


def sample_sizes(
    metadata: Metadata, offsets: Mapping[TopicPartition, int], net: NetOptions
) -> dict[TopicPartition, SizeSample]:
    """Batches at these offsets, without partitions whose response has no whole batch, or no such offset.

    Raises ``UnknownTopicError`` (fatal), and ``BrokerError`` and ``TransportError``, most of them retriable.
    """
    leaders = metadata.leaders_of(offsets)
    by_broker: dict[Broker, dict[TopicPartition, Leader]] = defaultdict(dict)
    for partition, leader in leaders.items():
        by_broker[leader.broker][partition] = leader

    def sampled(broker: Broker) -> dict[TopicPartition, SizeSample]:
        try:
            return dict(_samples(broker, by_broker[broker], offsets, net))
        except KafkaWireError:
            for partition in by_broker[broker]:
                metadata.forget(partition.topic)  # another attempt looks up the leaders first
            raise

    return {tp: item for result in side_by_side(by_broker, sampled).values() for tp, item in result.items()}


def _samples(
    broker: Broker,
    leaders: Mapping[TopicPartition, Leader],
    offsets: Mapping[TopicPartition, int],
    net: NetOptions,
) -> Iterator[tuple[TopicPartition, SizeSample]]:
    with POOL.lend(broker, net.connection) as client:
        size = _SAMPLE_BYTES if client.version_of(FETCH) >= _WHOLE_SINCE else _CUT_BYTES
        requests = [_request(tp, offsets[tp], leader, size) for tp, leader in leaders.items()]
        responses = zip(leaders, client.pipeline(requests), strict=True)
        result = [(tp, *_answer(response.body, offsets[tp])) for tp, response in responses]
    for partition, code, sample in result:
        if code and code != ErrorCode.OFFSET_OUT_OF_RANGE:  # the task that reads there reports that
            raise broker_error(code, f"Fetch of {partition} on {broker}")
        if sample is not None:
            yield partition, sample


def _answer(response: FetchResponse, offset: int) -> tuple[int, SizeSample | None]:
    """The error code of a response, or its sample."""
    result = [item for topic in response.responses for item in topic.partitions]
    code = response.error_code or (result[0].error_code if result else 0)
    return code, sample_of(result[0], offset) if result and not code else None


def _request(partition: TopicPartition, offset: int, leader: Leader, size: int) -> FetchRequest:
    asked = FetchPartition(
        partition=partition.partition,
        current_leader_epoch=leader.epoch,
        fetch_offset=offset,
        partition_max_bytes=size,
    )
    topic_id = leader.topic_id or NO_TOPIC_ID
    topic = FetchTopic(topic=partition.topic, topic_id=topic_id, partitions=(asked,))
    return FetchRequest(max_wait_ms=_WAIT_MS, min_bytes=1, max_bytes=size, topics=(topic,))


def sample_of(found: FetchPartitionResponse, offset: int) -> SizeSample | None:
    """The whole batches of the response to a fetch at ``offset``; None without any.

    Offsets that are missing before the first batch count, too: they have no bytes. The task that reads
    damaged batches reports them."""
    index, _ = whole_batches(found.records or b"")
    if index.next_offset is None:
        return None
    first = min(offset, int(index.table[0, BASE_OFFSET]))
    return SizeSample(int(index.column(SIZE).sum()), index.next_offset - first)
