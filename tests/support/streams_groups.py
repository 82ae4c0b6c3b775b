"""Descriptions of streams groups (KIP-1071), as a coordinator answers with them."""

from __future__ import annotations

from spark_kafkawire.protocol.modern.group_members import (
    DescribedStreamsGroup,
    Endpoint,
    StreamsGroupMember,
    Subtopology,
    TaskAssignment,
    TaskIds,
    Topology,
)


def streams_group(
    group_id: str, member_id: str, *topics: str, partitions: tuple[int, ...] = (0,)
) -> DescribedStreamsGroup:
    """A group of one member, whose active tasks read these partitions of the topics."""
    tasks = TaskAssignment(
        active_tasks=(TaskIds(subtopology_id="0", partitions=partitions),), standby_tasks=(), warmup_tasks=()
    )
    subtopology = Subtopology(
        subtopology_id="0",
        source_topics=topics,
        repartition_sink_topics=(),
        state_changelog_topics=(),
        repartition_source_topics=(),
    )
    member = StreamsGroupMember(
        member_id=member_id,
        member_epoch=3,
        client_id="c",
        client_host="/127.0.0.1",
        topology_epoch=0,
        process_id="p",
        user_endpoint=Endpoint(host="localhost", port=1),
        client_tags=(),
        task_offsets=(),
        task_end_offsets=(),
        assignment=tasks,
        target_assignment=tasks,
        is_classic=False,
    )
    return DescribedStreamsGroup(
        error_code=0,
        group_id=group_id,
        group_state="Stable",
        group_epoch=3,
        assignment_epoch=3,
        topology=Topology(epoch=0, subtopologies=(subtopology,)),
        members=(member,),
    )
