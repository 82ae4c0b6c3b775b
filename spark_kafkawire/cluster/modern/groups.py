"""Consumer groups of a cluster of Kafka 0.8 and later: one class over the requests of members and offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_kafkawire.errors import UnsupportedVersionError
from spark_kafkawire.model import TopicPartition
from spark_kafkawire.options import NetOptions

from .described_groups import offsets_of_group
from .group_members import group_members, list_groups, partitions_of_group
from .group_offsets import commit_offsets, committed_offsets, committed_texts
from .metadata import Metadata


class ConsumerGroups:
    """Implements the protocol ``cluster.ConsumerGroups``."""

    def __init__(self, metadata: Metadata, net: NetOptions) -> None:
        self._metadata = metadata
        self._net = net

    def names(self) -> tuple[str, ...]:
        return list_groups(self._metadata.known_brokers(), self._net)

    def members(self, group: str) -> tuple[str, ...]:
        return group_members(self._metadata, group, self._net)

    def partitions(self, group: str) -> tuple[TopicPartition, ...]:
        return partitions_of_group(self._metadata, group, self._net)

    def offsets(
        self,
        group: str,
        partitions: Sequence[TopicPartition],
        *,
        strict: bool = True,  # noqa: ARG002  # brokers keep offsets alone
    ) -> dict[TopicPartition, int | None]:
        return committed_offsets(self._metadata, group, partitions, self._net)

    def committed(self, group: str) -> dict[TopicPartition, int]:
        try:
            found = offsets_of_group(self._metadata, group, self._net)
        except UnsupportedVersionError:
            offsets = self.offsets(group, self.partitions(group))
            return {tp: offset for tp, offset in offsets.items() if offset is not None}
        return {tp: part.committed_offset for tp, part in sorted(found.items())}

    def texts(self, group: str) -> tuple[tuple[int, str, str], ...]:
        try:
            return committed_texts(self._metadata, group, self._net, stable_in=None)
        except UnsupportedVersionError:
            return ()

    def commit(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int],
        *,
        force: bool = False,  # noqa: ARG002  # the coordinator decides
    ) -> None:
        commit_offsets(self._metadata, group, offsets, self._net)
