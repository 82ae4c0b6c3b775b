"""Streams groups (KIP-1071) of Apache Kafka in the tables. Their member joins with frames of kio."""

from __future__ import annotations

import contextlib
import datetime
import io
import socket
import struct
import uuid
from pathlib import Path
from typing import Any, Final

from spark_kafkawire.net.pool import POOL
from tests.support import librdkafka
from tests.support.certificates import Certificates
from tests.support.foreign import Record
from tests.support.kio_library import HAS_KIO, NEEDS_KIO
from tests.support.polling import GRACE_S, poll
from tests.support.table_reading import table_rows

from .apache_kafka import ApacheKafka
from .needs import needs_broker
from .versions import NEWEST

if HAS_KIO:
    from kio.schema.offset_commit.v9 import request as commit
    from kio.schema.offset_commit.v9.response import OffsetCommitResponse
    from kio.schema.streams_group_heartbeat.v0 import request as heartbeat
    from kio.schema.streams_group_heartbeat.v0.response import StreamsGroupHeartbeatResponse
    from kio.serial import entity_reader, entity_writer
    from kio.static.primitive import i16, i32, i32Timedelta, i64

#: Brokers have offered streams groups since 4.2, and an early access before.
GROUP: Final = "streaming"
#: Codes of a coordinator that loads, or is not there yet.
_NOT_YET: Final = (14, 15, 16)
_CLIENT_ID: Final = b"streams-kw"
#: Header of a request: API key and version, correlation id, size of the client id.
_HEADER: Final = struct.Struct(">hhih")


class Member:
    """A member of a streams group, as far as it takes to get tasks."""

    def __init__(self, sock: socket.socket, topics: tuple[str, ...]) -> None:
        self._sock = sock
        self._topics = topics
        self.id = str(uuid.uuid4())
        self._epoch = 0

    def beat(self) -> None:
        """Join, or stay. A coordinator that does not serve the group yet is asked again by the next beat."""
        joins = self._epoch == 0
        nothing: Any = () if joins else None
        request = heartbeat.StreamsGroupHeartbeatRequest(
            group_id=GROUP,  # type: ignore[arg-type]
            member_id=self.id,
            member_epoch=i32(self._epoch),
            endpoint_information_epoch=i32(0),
            rebalance_timeout=i32Timedelta.parse(datetime.timedelta(seconds=60)),
            topology=self._topology() if joins else None,
            active_tasks=nothing,
            standby_tasks=nothing,
            warmup_tasks=nothing,
            process_id="process" if joins else None,
            client_tags=nothing,
            task_offsets=None,
            task_end_offsets=None,
        )
        response = self._ask(request, StreamsGroupHeartbeatResponse)
        if response.error_code not in _NOT_YET:
            assert response.error_code == 0, response
            self._epoch = response.member_epoch

    def commit(self, topic: str, offset: int) -> None:
        """Commit the offset of partition 0."""
        partition = commit.OffsetCommitRequestPartition(
            partition_index=i32(0), committed_offset=i64(offset), committed_metadata=""
        )
        request = commit.OffsetCommitRequest(
            group_id=GROUP,  # type: ignore[arg-type]
            generation_id_or_member_epoch=i32(self._epoch),
            member_id=self.id,
            topics=(commit.OffsetCommitRequestTopic(name=topic, partitions=(partition,)),),  # type: ignore[arg-type]
        )
        [committed] = self._ask(request, OffsetCommitResponse).topics
        assert [each.error_code for each in committed.partitions] == [0]

    def _ask(self, request: Any, response: type[Any]) -> Any:
        kind = type(request)
        body = io.BytesIO()
        entity_writer(kind)(body, request)
        header = _HEADER.pack(kind.__api_key__, kind.__version__, 7, len(_CLIENT_ID)) + _CLIENT_ID + b"\0"
        frame = header + body.getvalue()
        self._sock.sendall(len(frame).to_bytes(4, "big") + frame)
        size = int.from_bytes(self._received(4), "big")
        # The header: correlation id, no tagged field.
        return entity_reader(response)(self._received(size), 5)[0]

    def _topology(self) -> Any:
        subtopology = heartbeat.Subtopology(
            subtopology_id="0",
            source_topics=self._topics,  # type: ignore[arg-type]
            state_changelog_topics=(),
            repartition_source_topics=(),
            copartition_groups=(
                heartbeat.CopartitionGroup(source_topics=(i16(0),)),
                heartbeat.CopartitionGroup(source_topics=(i16(1),)),
            ),
        )
        return heartbeat.Topology(epoch=i32(0), subtopologies=(subtopology,))

    def _received(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._sock.recv(size - len(data))
            assert part, "the broker closed the connection"
            data += part
        return data


@NEEDS_KIO
def test_a_streams_group_has_members_with_tasks_offsets_and_lag(
    tmp_path: Path, certificates: Certificates
) -> None:
    needs_broker(NEWEST)
    with ApacheKafka(NEWEST, tmp_path, certificates) as kafka:
        servers = kafka.bootstrap_servers()
        wide, narrow = librdkafka.create_topic(servers, 3), librdkafka.create_topic(servers, 1)
        # The topic of the groups comes into being with the first one.
        librdkafka.commit_offsets(servers, "first", narrow, {0: 0})
        host, port = servers.rsplit(":", 1)
        with contextlib.closing(socket.create_connection((host, int(port)), GRACE_S)) as sock:
            member = Member(sock, tuple(sorted((wide, narrow))))

            def assigned() -> list[dict[str, Any]]:
                member.beat()
                rows = table_rows(servers, "group_members", kafka__group__id=GROUP)
                return [row for row in rows if row["assignment"]]

            [row] = poll(assigned, "a member with tasks")
            librdkafka.produce(servers, narrow, [Record(b"v", partition=0)] * 5)
            member.commit(narrow, 2)
            [group] = table_rows(servers, "groups", kafka__group__id=GROUP)
            [read] = table_rows(servers, "group_offsets", kafka__group__id=GROUP)
    POOL.close_idle()
    assert (row["memberId"], row["clientId"], row["host"]) == (member.id, "streams-kw", "/127.0.0.1")
    places = [(wide, 0), (wide, 1), (wide, 2), (narrow, 0)]
    assert [(each["topic"], each["partition"]) for each in row["assignment"]] == sorted(places)
    assert row["memberEpoch"] > 0
    assert (group["type"], group["protocolType"], group["state"]) == ("streams", "streams", "Stable")
    assert group["members"] == 1
    assert (read["topic"], read["partition"], read["offset"], read["lag"]) == (narrow, 0, 2, 3)
