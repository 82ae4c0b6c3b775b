"""Questions that several tables ask: topics as the user filters them, groups, and rights that are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from ..cluster import Cluster, cluster_of
from ..cluster.modern.acls import AclOperation, may_do_to_cluster
from ..cluster.modern.groups import ConsumerGroups, CoordinatedGroup, list_coordinated_groups
from ..cluster.modern.metadata import Metadata
from ..errors import BrokerError, UnknownTopicError, quote
from ..model import TopicPartition
from ..options import NetOptions
from ..options.read import TableOptions
from ..planner.batch import match_topics, select
from ..protocol.modern.error_codes import ErrorCode, broker_error
from ..protocol.modern.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataTopic

#: Codes of a user who lacks a right.
_NO_RIGHT: Final = frozenset(
    (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )
)
#: Name of a topic that no cluster has. A broker refuses it to a user who may not describe all topics.
_NO_TOPIC: Final = "kafkawire-may-describe-topics"


@dataclass(frozen=True)
class Scan:
    """One read of a table: the cluster that it asks, and the ``wanted`` columns."""

    options: TableOptions
    wanted: frozenset[str]

    def wants(self, *columns: str) -> bool:
        """True if one of the columns is wanted."""
        return not self.wanted.isdisjoint(columns)

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster, of any generation."""
        return cluster_of(self.options.of_cluster)

    @cached_property
    def net(self) -> NetOptions:
        """Connections to brokers of Kafka 0.8 and later."""
        return replace(self.options.net, retry=self.options.planning_retry)

    @cached_property
    def metadata(self) -> Metadata:
        """Metadata of a cluster of Kafka 0.8 and later."""
        return Metadata(self.options.discovery.bootstrap_servers, self.net)

    @cached_property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Partitions of the selected topics, or of all that are not internal; of any generation."""
        selection = self.options.selection
        if selection is not None:
            return select(selection, self.cluster, may_be_empty=True)
        return self.cluster.listed_partitions(self.cluster.topics())

    @cached_property
    def topics(self) -> list[MetadataTopic]:
        """The selected topics, or all, internal ones too, as brokers of Kafka 0.8 and later describe them,
        sorted by name.

        Raises ``UnknownTopicError`` (fatal), and ``BrokerError`` (fatal) that names the missing right where
        brokers show no topic because of it.
        """
        names = self.options.selection.subscribe if self.options.selection else ()
        with needs("Describe on the topics"):
            if names:
                self.metadata.refresh(names)  # an unknown topic, or one without the right, is an error here
            result = self._described(names or None)
            if not result and self.options.selection is None:
                self._check_sees_topics()
        pattern = self.options.selection.pattern if self.options.selection else None
        if pattern is not None:
            named = set(match_topics(pattern, [item.name or "" for item in result if not item.is_internal]))
            result = [item for item in result if item.name in named]
        return result

    def _described(self, names: Sequence[str] | None) -> list[MetadataTopic]:
        asked = None if names is None else tuple(MetadataRequestTopic(name=name) for name in names)
        response: MetadataResponse = self.metadata.ask(
            MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        )
        result = [
            item for item in response.topics if item.name is not None and (not names or item.name in names)
        ]
        return sorted(result, key=lambda item: item.name or "")

    def _check_sees_topics(self) -> None:
        """Raise ``BrokerError`` if the user may not describe topics: brokers leave such topics out."""
        asked = MetadataRequest(
            topics=(MetadataRequestTopic(name=_NO_TOPIC),), allow_auto_topic_creation=False
        )
        response: MetadataResponse = self.metadata.ask(asked)
        for topic in response.topics:
            if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise broker_error(topic.error_code, "Metadata of all topics")

    @cached_property
    def led(self) -> list[TopicPartition]:
        """Partitions of ``topics`` that have a leader now, sorted."""
        there = {tp for topic in self.topics for tp in partitions_of(topic)}
        try:
            self.metadata.topics()
            return sorted(self.metadata.known_leaders(there))
        except UnknownTopicError:
            return []

    @cached_property
    def groups(self) -> list[CoordinatedGroup]:
        """The group of the options, or all, of Kafka 0.9 and later. Raises ``BrokerError`` (fatal) that names
        the missing right where brokers list no group because of it."""
        result = list_coordinated_groups(self.metadata.known_brokers(), self.net)
        name = self.options.group_id
        if name is not None:
            result = [group for group in result if group.id == name]
            if not result:
                with needs(f"Describe on Group {quote(name)}"):
                    ConsumerGroups(self.metadata, self.net).members(name)
        elif not result and may_do_to_cluster(self.metadata, AclOperation.DESCRIBE) is False:
            with needs("Describe on Cluster, or Describe on the groups"):
                raise broker_error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "ListGroups of all brokers")
        return result


def partitions_of(topic: MetadataTopic) -> list[TopicPartition]:
    """Partitions of a topic, sorted."""
    assert topic.name is not None
    return sorted(TopicPartition(topic.name, item.partition_index) for item in topic.partitions)


@contextmanager
def needs(right: str) -> Iterator[None]:
    """Add the right that a request needs to the error of a user who lacks it."""
    try:
        yield
    except BrokerError as error:
        if error.code not in _NO_RIGHT:
            raise
        raise error.advise(f"the user needs the ACL {right}") from error
