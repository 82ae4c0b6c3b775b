"""Comparison of the partitions that a job knows, from its earlier runs or a group's offsets, with those that
exist.

ZooKeeper cannot prove that a partition of 0.7 is gone: while its broker is down, or its session is expired,
both of its registrations are missing. So a job waits for a partition that it read before. If it stays
missing, that is an error, unless the user says that its broker is gone for good.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from spark_kafkawire.cluster.cluster import Cluster
from spark_kafkawire.errors import BrokersMissingError, listed_some
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.planner.batch import covers

#: Partitions that an error names.
_NAMES_COUNT_MAX: Final = 5


class ExpectedPartitions:
    """Partitions that a run knows: the ``known`` partitions, as far as the options select their topics."""

    def __init__(
        self, options: ReadOptions, known: Iterable[TopicPartition], gone_brokers: Collection[int] = ()
    ) -> None:
        self._gone_brokers = gone_brokers
        self._known = sorted({tp for tp in known if covers(options.selection, tp.topic)})

    def await_brokers(self, cluster: Cluster) -> None:
        """Wait for the brokers of all these partitions, except those that are gone for good.

        Raises ``BrokersMissingError`` if a broker stays missing, unless the options accept data loss.
        """
        try:
            cluster.await_partitions([tp for tp in self._known if not self.is_given_up(tp)])
        except BrokersMissingError as error:
            raise error.advised(
                "earlier runs, or the group, have read its partitions; if it is gone for good, give "
                "--gone-broker"
            ) from error

    def is_given_up(self, partition: TopicPartition) -> bool:
        """True if the user says that the partition's broker is gone for good."""
        return partition.broker is not None and partition.broker in self._gone_brokers

    def missing(self, found: Collection[TopicPartition]) -> list[TopicPartition]:
        """Known partitions that were not found."""
        there = set(found)
        return [tp for tp in self._known if tp not in there]


def missing_lines(
    partitions: Collection[TopicPartition], positions: Mapping[TopicPartition, int]
) -> list[str]:
    """A line for each partition that is skipped."""
    return [
        f"{tp} is not there: it was read up to {positions[tp]}"
        if tp in positions
        else f"{tp} is not there: the group has read it"
        for tp in partitions
    ]


def missing_text(missing: Collection[TopicPartition]) -> str:
    """The text of an error about missing partitions."""
    named = listed_some(sorted(missing), _NAMES_COUNT_MAX)
    return f"{named}: earlier runs or the group have read it, and no broker has it now"
