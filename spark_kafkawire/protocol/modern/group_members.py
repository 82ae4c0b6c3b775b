"""Lists of groups, and their members by the kind of group; ``describe_groups`` has the classic ones.

ListGroups (Kafka 0.9 and later): the groups that a broker coordinates.

Versions of ListGroups::

    0       the groups of a broker
    1       throttle time
    2       throttled responses come at once, and the client waits (KIP-219)
    3       flexible (KIP-482)
    4       states, and a filter for them (KIP-518)
    5       types, and a filter for them (KIP-848)

Assignments of the members of classic groups, as Kafka's consumers write them for each other.

Brokers pass the bytes on without a look at them::

    version        int16
    topics         array of a topic's name and its partitions, int32
    user data      bytes of the assignor

Source: Apache Kafka's ConsumerProtocolAssignment.json, whose versions 0 to 3 do not differ.

ConsumerGroupDescribe (Kafka 3.7 and later): the members of a group of the new consumer protocol (KIP-848).

Brokers compute the assignments of such a group. DescribeGroups shows it without members.

Versions of ConsumerGroupDescribe::

    0       flexible (KIP-482), throttled responses come at once; groups and their members (KIP-848)
    1       by which protocol a member joined (KIP-1099)

ShareGroupDescribe (Kafka 4.1 and later): the members of a share group (KIP-932).

Several members of such a group may read one partition.

Versions of ShareGroupDescribe::

    0       not spoken: an early access of Kafka 4.0; throttled responses come at once
    1       flexible (KIP-482); share groups and their members (KIP-932)

StreamsGroupDescribe (Kafka 4.2 and later): the members of a streams group (KIP-1071).

Brokers give tasks to the members of such a group. A task is a partition of a subtopology: it reads this
partition of each input topic that has it.

Versions of StreamsGroupDescribe::

    0       flexible (KIP-482), throttled responses come at once; streams groups and their members (KIP-1071)
    1       not spoken: descriptions of topologies (KIP-1331) and the assignor (KIP-1357)
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, Final

from spark_kafkawire.errors import ProtocolError

from ..primitives import BOOL, INT8, INT16, INT32, INT64, UINT16, UUID, Array, Buffer, String
from ..responses import Faults, find_repeated, unlike
from ..schema import Struct, codec, wire
from . import declare
from .limits import response_bytes_max
from .metadata import NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsRequest:
    """Ask a broker for its groups: all of them if the filters are empty."""

    states_filter: tuple[str, ...] = wire(Array(String()), since=4, default=())
    types_filter: tuple[str, ...] = wire(Array(String()), since=5, default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """Entry for one group. ``protocol_type`` is ``consumer`` for groups of consumers, and empty for groups
    that have committed offsets and never had members."""

    group_id: str = wire(String())
    protocol_type: str = wire(String())
    group_state: str = wire(String(), since=4, default="")
    group_type: str = wire(String(), since=5, default="")
    """Type of the group: ``classic`` or ``consumer`` (KIP-848)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsResponse:
    """The groups of one broker."""

    throttle_time_ms: int = wire(INT32, since=1, default=0)
    error_code: int = wire(INT16)
    groups: tuple[ListedGroup, ...] = wire(Array(Struct(ListedGroup)))


def _list_faults(_request: ListGroupsRequest, response: ListGroupsResponse, _version: int) -> Faults:
    return find_repeated(group.group_id for group in response.groups)


LIST_GROUPS: Final = declare(ListGroupsRequest, ListGroupsResponse, response_bytes_max, _list_faults)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicAssignedTopic:
    """Partitions of a topic that a member reads."""

    topic: str = wire(String())
    partitions: tuple[int, ...] = wire(Array(INT32))


def parse_assigned_topics(assignment: Buffer) -> tuple[ClassicAssignedTopic, ...] | None:
    """Topics of an assignment. Empty for a member without one, None for bytes of another format."""
    buf = memoryview(assignment)
    if not buf:
        return ()
    try:
        _, pos = INT16.read(buf, 0)
        topics, _ = Array(codec(ClassicAssignedTopic, 0, flexible=False)).read(buf, pos)
    except ProtocolError:
        return None
    return topics


def _check_described(request: Any, response: Any, _version: int) -> Faults:
    yield from unlike(request.group_ids, (group.group_id for group in response.groups))
    for group in response.groups:
        yield from find_repeated((group.group_id, member.member_id) for member in group.members)


#: ``member_type`` from brokers that do not report it.
_UNKNOWN_TYPE: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeRequest:
    """Ask a coordinator for groups that it keeps."""

    group_ids: tuple[str, ...] = wire(Array(String()))
    include_authorized_operations: bool = wire(BOOL, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedTopic:
    """Partitions of one topic."""

    topic_id: uuid.UUID = wire(UUID)
    topic_name: str = wire(String())
    partitions: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAssignment:
    """Partitions that a member reads."""

    topic_partitions: tuple[AssignedTopic, ...] = wire(Array(Struct(AssignedTopic)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMember:
    """Member of a consumer group: its identity, its host, its current and its target assignment.

    ``member_type`` is 0 for a member that joined with the classic protocol, and 1 for others.
    """

    member_id: str = wire(String())
    instance_id: str | None = wire(String(), nullable_since=0, default=None)
    rack_id: str | None = wire(String(), nullable_since=0, default=None)
    member_epoch: int = wire(INT32)
    client_id: str = wire(String())
    client_host: str = wire(String())
    subscribed_topic_names: tuple[str, ...] = wire(Array(String()))
    subscribed_topic_regex: str | None = wire(String(), nullable_since=0, default=None)
    assignment: MemberAssignment = wire(Struct(MemberAssignment))
    target_assignment: MemberAssignment = wire(Struct(MemberAssignment))
    member_type: int = wire(INT8, since=1, default=_UNKNOWN_TYPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedConsumerGroup:
    """Description of one group, or the error: ``GROUP_ID_NOT_FOUND`` also for a group of the classic kind."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(String(), nullable_since=0, default=None)
    group_id: str = wire(String())
    group_state: str = wire(String())
    group_epoch: int = wire(INT32)
    assignment_epoch: int = wire(INT32)
    assignor_name: str = wire(String())
    members: tuple[ConsumerGroupMember, ...] = wire(Array(Struct(ConsumerGroupMember)))
    authorized_operations: int = wire(INT32, default=NOT_ASKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupDescribeResponse:
    """The requested groups."""

    throttle_time_ms: int = wire(INT32, default=0)
    groups: tuple[DescribedConsumerGroup, ...] = wire(Array(Struct(DescribedConsumerGroup)))


CONSUMER_GROUP_DESCRIBE: Final = declare(
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, response_bytes_max, _check_described
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribeRequest(ConsumerGroupDescribeRequest):
    """Ask a coordinator for share groups that it keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMember:
    """Member of a share group: its identity, its host and its assignment."""

    member_id: str = wire(String())
    rack_id: str | None = wire(String(), nullable_since=1, default=None)
    member_epoch: int = wire(INT32)
    client_id: str = wire(String())
    client_host: str = wire(String())
    subscribed_topic_names: tuple[str, ...] = wire(Array(String()))
    assignment: MemberAssignment = wire(Struct(MemberAssignment))


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedShareGroup:
    """Description of one group, or the error: ``GROUP_ID_NOT_FOUND`` also for a group of another kind."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(String(), nullable_since=1, default=None)
    group_id: str = wire(String())
    group_state: str = wire(String())
    group_epoch: int = wire(INT32)
    assignment_epoch: int = wire(INT32)
    assignor_name: str = wire(String())
    members: tuple[ShareGroupMember, ...] = wire(Array(Struct(ShareGroupMember)))
    authorized_operations: int = wire(INT32, default=NOT_ASKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupDescribeResponse:
    """The requested groups."""

    throttle_time_ms: int = wire(INT32, default=0)
    groups: tuple[DescribedShareGroup, ...] = wire(Array(Struct(DescribedShareGroup)))


SHARE_GROUP_DESCRIBE: Final = declare(
    ShareGroupDescribeRequest, ShareGroupDescribeResponse, response_bytes_max, _check_described
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescribeRequest(ConsumerGroupDescribeRequest):
    """Ask a coordinator for streams groups that it keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValue:
    """A setting, or a tag of a client."""

    key: str = wire(String())
    value: str = wire(String())


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic that the application creates."""

    name: str = wire(String())
    partitions: int = wire(INT32)
    """Number of partitions; 0 if none is set."""
    replication_factor: int = wire(INT16)
    """Replicas of each partition; 0 for the broker's default."""
    topic_configs: tuple[KeyValue, ...] = wire(Array(Struct(KeyValue)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    """Part of a topology whose input topics are read together."""

    subtopology_id: str = wire(String())
    source_topics: tuple[str, ...] = wire(Array(String()))
    repartition_sink_topics: tuple[str, ...] = wire(Array(String()))
    state_changelog_topics: tuple[TopicInfo, ...] = wire(Array(Struct(TopicInfo)))
    repartition_source_topics: tuple[TopicInfo, ...] = wire(Array(Struct(TopicInfo)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Computation of the application: its subtopologies."""

    epoch: int = wire(INT32)
    subtopologies: tuple[Subtopology, ...] | None = wire(
        Array(Struct(Subtopology)), nullable_since=0, default=None
    )
    """Subtopologies; None while input topics are missing or unlike each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Address of a member for interactive queries."""

    host: str = wire(String())
    port: int = wire(UINT16)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOffset:
    """Position of a task in its changelogs."""

    subtopology_id: str = wire(String())
    partition: int = wire(INT32)
    offset: int = wire(INT64)
    """Sum of the offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskIds:
    """Tasks of one subtopology."""

    subtopology_id: str = wire(String())
    partitions: tuple[int, ...] = wire(Array(INT32))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAssignment:
    """Tasks of a member: those that compute, that keep a copy of a state, and that restore one first."""

    active_tasks: tuple[TaskIds, ...] = wire(Array(Struct(TaskIds)))
    standby_tasks: tuple[TaskIds, ...] = wire(Array(Struct(TaskIds)))
    warmup_tasks: tuple[TaskIds, ...] = wire(Array(Struct(TaskIds)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupMember:
    """Member of a streams group: its identity, its host, its current and its target assignment."""

    member_id: str = wire(String())
    member_epoch: int = wire(INT32)
    instance_id: str | None = wire(String(), nullable_since=0, default=None)
    rack_id: str | None = wire(String(), nullable_since=0, default=None)
    client_id: str = wire(String())
    client_host: str = wire(String())
    topology_epoch: int = wire(INT32)
    process_id: str = wire(String())
    user_endpoint: Endpoint | None = wire(Struct(Endpoint), nullable_since=0, default=None)
    client_tags: tuple[KeyValue, ...] = wire(Array(Struct(KeyValue)))
    """Tags that spread standby tasks over racks."""
    task_offsets: tuple[TaskOffset, ...] = wire(Array(Struct(TaskOffset)))
    task_end_offsets: tuple[TaskOffset, ...] = wire(Array(Struct(TaskOffset)))
    assignment: TaskAssignment = wire(Struct(TaskAssignment))
    target_assignment: TaskAssignment = wire(Struct(TaskAssignment))
    is_classic: bool = wire(BOOL)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedStreamsGroup:
    """Description of one group, or the error: ``GROUP_ID_NOT_FOUND`` also for a group of another kind."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(String(), nullable_since=0, default=None)
    group_id: str = wire(String())
    group_state: str = wire(String())
    group_epoch: int = wire(INT32)
    assignment_epoch: int = wire(INT32)
    topology: Topology | None = wire(Struct(Topology), nullable_since=0, default=None)
    """Topology of the application; None if there was an error."""
    members: tuple[StreamsGroupMember, ...] = wire(Array(Struct(StreamsGroupMember)))
    authorized_operations: int = wire(INT32, default=NOT_ASKED)

    def inputs(self) -> dict[str, tuple[str, ...]] | None:
        """Topics that each subtopology reads; None while the broker does not know the topology."""
        if self.topology is None or self.topology.subtopologies is None:
            return None
        return {
            item.subtopology_id: (
                *item.source_topics,
                *(topic.name for topic in item.repartition_source_topics),
            )
            for item in self.topology.subtopologies
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescribeResponse:
    """The requested groups."""

    throttle_time_ms: int = wire(INT32, default=0)
    groups: tuple[DescribedStreamsGroup, ...] = wire(Array(Struct(DescribedStreamsGroup)))


STREAMS_GROUP_DESCRIBE: Final = declare(
    StreamsGroupDescribeRequest, StreamsGroupDescribeResponse, response_bytes_max, _check_described
)
