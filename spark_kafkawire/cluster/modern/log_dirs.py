"""Log directories of brokers of modern Kafka (1.0 to 4.x): sizes of replicas, from DescribeLogDirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spark_kafkawire.errors import LOG, BrokerError, printable
from spark_kafkawire.model import Broker, TopicPartition
from spark_kafkawire.net.retry import retried
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol.modern.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDir,
)
from spark_kafkawire.protocol.modern.error_codes import ErrorCode, broker_error

from ..asking import side_by_side
from .group_offsets import ask_coordinator, by_topic


@dataclass(frozen=True, slots=True)
class BrokerDisk:
    """The log directories of a broker: sizes of its replicas, and of the volumes, bytes.

    ``total_bytes`` and ``usable_bytes`` are None if the broker does not report them (before 3.3). While a
    replica moves to another directory, the size of the current one counts.
    """

    replica_bytes: Mapping[TopicPartition, int]
    total_bytes: int | None
    usable_bytes: int | None


def broker_disks(
    brokers: Iterable[Broker], net: NetOptions, partitions: Iterable[TopicPartition] | None = None
) -> dict[Broker, BrokerDisk]:
    """The log directories of brokers, with some partitions or with all. A directory whose disk failed is left
    out with a warning.

    Raises ``BrokerError`` with the code of the missing right if the user may not describe the cluster,
    ``UnsupportedVersionError`` (fatal) before Kafka 2.0, and when the retries are used up ``BrokerError`` or
    ``TransportError``.
    """
    topics = None
    if partitions is not None:
        topics = tuple(
            DescribableLogDirTopic(topic=topic, partitions=tuple(tp.partition for tp in own))
            for topic, own in by_topic(partitions).items()
        )
    request = DescribeLogDirsRequest(topics=topics)

    def question(broker: Broker) -> BrokerDisk:
        return retried(lambda: _disk(broker, request, net), net.request_retry)

    return side_by_side(brokers, question)


def _disk(broker: Broker, request: DescribeLogDirsRequest, net: NetOptions) -> BrokerDisk:
    place = f"DescribeLogDirs on {broker}"
    response: DescribeLogDirsResponse = ask_coordinator(broker, request, net)
    if response.error_code:
        raise broker_error(response.error_code, place)
    if not response.results:
        # Every broker has a directory. Before version 3 this is the response to users without the right.
        raise broker_error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, place)
    found = [each for each in response.results if not _has_failed(each, place)]
    sizes = {
        TopicPartition(topic.name, replica.partition_index): replica.partition_size
        for each in found
        for topic in each.topics
        for replica in topic.partitions
        if not replica.is_future_key
    }
    return BrokerDisk(
        sizes, _sum(each.total_bytes for each in found), _sum(each.usable_bytes for each in found)
    )


def _has_failed(directory: LogDir, place: str) -> bool:
    if not directory.error_code:
        return False
    error: BrokerError = broker_error(directory.error_code, f"{place}, {printable(directory.log_dir)}")
    LOG.warning("%s: its partitions have no size", error)
    return True


def _sum(sizes: Iterable[int]) -> int | None:
    """The sum of sizes; None without sizes, or if one is unknown (-1)."""
    known = list(sizes)
    return sum(known) if known and min(known) >= 0 else None
