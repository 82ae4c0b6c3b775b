"""StreamsGroupDescribe (Kafka 4.2 and later): the members of a streams group (KIP-1071).

Brokers give tasks to the members of such a group. A task is a partition of a subtopology: it reads this
partition of each input topic that has it.

Versions of StreamsGroupDescribe::

    0       flexible (KIP-482), throttled responses come at once; streams groups and their members (KIP-1071)
    1       not spoken: descriptions of topologies (KIP-1331) and the assignor (KIP-1357)

Source: Apache Kafka's StreamsGroupDescribeRequest.json and StreamsGroupDescribeResponse.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..api import Api, VersionRange
from ..primitives import BOOL, INT16, INT32, INT64, UINT16, Array, String
from ..responses import Faults, repeated, unlike
from ..schema import Struct, wire
from . import names
from .limits import response_bytes_max
from .metadata import NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescribeRequest:
    """Ask a coordinator for streams groups that it keeps."""

    group_ids: tuple[str, ...] = wire(Array(String()))
    """Ids of the groups to describe."""
    include_authorized_operations: bool = wire(BOOL, default=False)
    """True to return the operations that the user may do to the group (KIP-430)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValue:
    """A setting, or a tag of a client."""

    key: str = wire(String())
    """Name."""
    value: str = wire(String())
    """Value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """A topic that the application creates."""

    name: str = wire(String())
    """Name of the topic."""
    partitions: int = wire(INT32)
    """Number of partitions; 0 if none is set."""
    replication_factor: int = wire(INT16)
    """Replicas of each partition; 0 for the broker's default."""
    topic_configs: tuple[KeyValue, ...] = wire(Array(Struct(KeyValue)))
    """Settings of the topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    """Part of a topology whose input topics are read together."""

    subtopology_id: str = wire(String())
    """Id of the subtopology."""
    source_topics: tuple[str, ...] = wire(Array(String()))
    """Topics that it reads."""
    repartition_sink_topics: tuple[str, ...] = wire(Array(String()))
    """Repartition topics that it writes."""
    state_changelog_topics: tuple[TopicInfo, ...] = wire(Array(Struct(TopicInfo)))
    """Changelog topics of its stores."""
    repartition_source_topics: tuple[TopicInfo, ...] = wire(Array(Struct(TopicInfo)))
    """Repartition topics that it reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Computation of the application: its subtopologies."""

    epoch: int = wire(INT32)
    """Epoch of the topology."""
    subtopologies: tuple[Subtopology, ...] | None = wire(
        Array(Struct(Subtopology)), nullable_since=0, default=None
    )
    """Subtopologies; None while input topics are missing or unlike each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Address of a member for interactive queries."""

    host: str = wire(String())
    """Host."""
    port: int = wire(UINT16)
    """Port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOffset:
    """Position of a task in its changelogs."""

    subtopology_id: str = wire(String())
    """Id of the subtopology."""
    partition: int = wire(INT32)
    """Partition of the task."""
    offset: int = wire(INT64)
    """Sum of the offsets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskIds:
    """Tasks of one subtopology."""

    subtopology_id: str = wire(String())
    """Id of the subtopology."""
    partitions: tuple[int, ...] = wire(Array(INT32))
    """Partitions of the tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAssignment:
    """Tasks of a member."""

    active_tasks: tuple[TaskIds, ...] = wire(Array(Struct(TaskIds)))
    """Tasks that read and compute."""
    standby_tasks: tuple[TaskIds, ...] = wire(Array(Struct(TaskIds)))
    """Tasks that keep a copy of a state."""
    warmup_tasks: tuple[TaskIds, ...] = wire(Array(Struct(TaskIds)))
    """Tasks that restore a state before they become active."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupMember:
    """Member of a streams group: its identity, its host, its current and its target assignment."""

    member_id: str = wire(String())
    """Id of the member, which it chose."""
    member_epoch: int = wire(INT32)
    """Epoch of the member: the assignment that it has taken over."""
    instance_id: str | None = wire(String(), nullable_since=0, default=None)
    """``group.instance.id`` of a static member; None for others."""
    rack_id: str | None = wire(String(), nullable_since=0, default=None)
    """Rack of the member."""
    client_id: str = wire(String())
    """``client.id`` of the member."""
    client_host: str = wire(String())
    """Host of the member."""
    topology_epoch: int = wire(INT32)
    """Epoch of the topology that the member has."""
    process_id: str = wire(String())
    """Process of the member, which may have several."""
    user_endpoint: Endpoint | None = wire(Struct(Endpoint), nullable_since=0, default=None)
    """Address for interactive queries; None without one."""
    client_tags: tuple[KeyValue, ...] = wire(Array(Struct(KeyValue)))
    """Tags that spread standby tasks over racks."""
    task_offsets: tuple[TaskOffset, ...] = wire(Array(Struct(TaskOffset)))
    """Positions of its tasks in their changelogs."""
    task_end_offsets: tuple[TaskOffset, ...] = wire(Array(Struct(TaskOffset)))
    """Ends of the changelogs of its tasks."""
    assignment: TaskAssignment = wire(Struct(TaskAssignment))
    """Current assignment."""
    target_assignment: TaskAssignment = wire(Struct(TaskAssignment))
    """Assignment that the member moves to."""
    is_classic: bool = wire(BOOL)
    """True for a member that joined with the classic protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedStreamsGroup:
    """Description of one group, or the error: ``GROUP_ID_NOT_FOUND`` also for a group of another kind."""

    error_code: int = wire(INT16)
    """Error code; 0 if there was no error."""
    error_message: str | None = wire(String(), nullable_since=0, default=None)
    """Text of the error; None if the broker gives none."""
    group_id: str = wire(String())
    """Id of the group."""
    group_state: str = wire(String())
    """State of the group."""
    group_epoch: int = wire(INT32)
    """Epoch of the group, which rises when members or the topology change."""
    assignment_epoch: int = wire(INT32)
    """Epoch of the target assignment."""
    topology: Topology | None = wire(Struct(Topology), nullable_since=0, default=None)
    """Topology of the application; None if there was an error."""
    members: tuple[StreamsGroupMember, ...] = wire(Array(Struct(StreamsGroupMember)))
    """Members of the group."""
    authorized_operations: int = wire(INT32, default=NOT_ASKED)
    """Bits of the operations that the user may do to the group (KIP-430)."""

    def inputs(self) -> dict[str, tuple[str, ...]] | None:
        """Topics that each subtopology reads; None while the broker does not know the topology."""
        if self.topology is None or self.topology.subtopologies is None:
            return None
        return {
            each.subtopology_id: (
                *each.source_topics,
                *(topic.name for topic in each.repartition_source_topics),
            )
            for each in self.topology.subtopologies
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupDescribeResponse:
    """The requested groups."""

    throttle_time_ms: int = wire(INT32, default=0)
    """Throttle time because of a quota, ms; 0 if no quota was exceeded (KIP-13)."""
    groups: tuple[DescribedStreamsGroup, ...] = wire(Array(Struct(DescribedStreamsGroup)))
    """Description of each group."""


def _faults(
    request: StreamsGroupDescribeRequest, response: StreamsGroupDescribeResponse, _version: int
) -> Faults:
    yield from unlike(request.group_ids, (group.group_id for group in response.groups))
    for group in response.groups:
        yield from repeated((group.group_id, member.member_id) for member in group.members)


STREAMS_GROUP_DESCRIBE: Final = Api(
    *names.STREAMS_GROUP_DESCRIBE,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    response_bytes_max,
    faults=_faults,
    versions=VersionRange(0, 0),
    flexible_since=0,
    throttles_since=0,
)
