"""Streams groups (KIP-1071) in the tables: a member that kio plays joins one, and commits an offset."""

from __future__ import annotations

import datetime
import io
import socket
import struct
from pathlib import Path
from typing import Any, Final

from spark_kafkawire.net.pool import POOL
from tests.support import librdkafka
from tests.support.certificates import Certificates
from tests.support.foreign import Record
from tests.support.kio_library import NEEDS_KIO
from tests.support.polling import poll
from tests.support.table_reading import table_rows

from .apache_kafka import ApacheKafka
from .needs import needs_broker

VERSION: Final = "4.4.0"
GROUP: Final = "flow"
_HEADER: Final = struct.Struct(">hhihsB")


def asked(servers: str, request: Any, response: type[Any]) -> Any:
    """The broker's answer to a request of a flexible version."""
    from kio.serial import entity_reader, entity_writer

    content = io.BytesIO()
    entity_writer(type(request))(content, request)
    kind = type(request)
    frame = _HEADER.pack(kind.__api_key__, kind.__version__, 1, 1, b"x", 0) + content.getvalue()
    host, _, port = servers.rpartition(":")
    with socket.create_connection((host, int(port)), 30) as connection, connection.makefile("rb") as answers:
        connection.sendall(len(frame).to_bytes(4, "big") + frame)
        answer = answers.read(int.from_bytes(answers.read(4), "big"))
    return entity_reader(response)(memoryview(answer), 5)[0]


def joined(servers: str, topic: str) -> Any:
    """The epoch of a member of a new streams group that reads a topic; None while the broker has no
    coordinator for it."""
    from kio.schema.streams_group_heartbeat.v0 import request as of
    from kio.schema.streams_group_heartbeat.v0.response import StreamsGroupHeartbeatResponse
    from kio.static.primitive import i32, i32Timedelta

    subtopology = of.Subtopology(
        subtopology_id="0",
        source_topics=(topic,),  # type: ignore[arg-type]
        state_changelog_topics=(),
        repartition_source_topics=(),
        copartition_groups=(),
    )
    heartbeat = of.StreamsGroupHeartbeatRequest(
        group_id=GROUP,  # type: ignore[arg-type]
        member_id="m",
        member_epoch=i32(0),
        endpoint_information_epoch=i32(0),
        rebalance_timeout=i32Timedelta.parse(datetime.timedelta(seconds=30)),
        topology=of.Topology(epoch=i32(0), subtopologies=(subtopology,)),
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
        process_id="p",
        client_tags=(),
        task_offsets=None,
        task_end_offsets=None,
    )
    answer = asked(servers, heartbeat, StreamsGroupHeartbeatResponse)
    return answer.member_epoch if answer.error_code.value == 0 else None


def commit(servers: str, topic: str, offset: int, epoch: Any) -> None:
    from kio.schema.offset_commit.v9 import request as of
    from kio.schema.offset_commit.v9.response import OffsetCommitResponse
    from kio.static.primitive import i32, i64

    partition = of.OffsetCommitRequestPartition(
        partition_index=i32(0), committed_offset=i64(offset), committed_metadata=""
    )
    request = of.OffsetCommitRequest(
        group_id=GROUP,  # type: ignore[arg-type]
        generation_id_or_member_epoch=epoch,
        member_id="m",
        topics=(of.OffsetCommitRequestTopic(name=topic, partitions=(partition,)),),  # type: ignore[arg-type]
    )
    [committed] = asked(servers, request, OffsetCommitResponse).topics
    assert [each.error_code.value for each in committed.partitions] == [0]


@NEEDS_KIO
def test_a_streams_group_has_a_type_offsets_and_lag(tmp_path: Path, certificates: Certificates) -> None:
    needs_broker(VERSION)
    with ApacheKafka(VERSION, tmp_path, certificates) as kafka:
        servers = kafka.bootstrap_servers()
        topic = librdkafka.create_topic(servers, 2)
        librdkafka.produce(servers, topic, [Record(b"v", partition=0)] * 5)
        # The first request about any group makes the broker create its topic of offsets.
        librdkafka.committed_offset(servers, "any", topic)
        commit(servers, topic, 2, poll(lambda: joined(servers, topic), "the group has a coordinator"))
        [group] = table_rows(servers, "groups", kafka__group__id=GROUP)
        [row] = table_rows(servers, "group_offsets", kafka__group__id=GROUP)
        assert (group["type"], group["protocolType"], group["members"]) == ("streams", "streams", None)
        assert (row["topic"], row["partition"], row["offset"], row["lag"]) == (topic, 0, 2, 3)
        assert table_rows(servers, "group_members", kafka__group__id=GROUP) == []
    POOL.close_idle()
