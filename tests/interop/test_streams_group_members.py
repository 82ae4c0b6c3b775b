"""Members of streams groups (KIP-1071) on Apache Kafka, which join with frames of kio."""

from __future__ import annotations

import contextlib
import datetime
import io
import socket
import uuid
from pathlib import Path
from typing import Any, Final

from spark_kafkawire.net.pool import POOL
from tests.support import librdkafka
from tests.support.certificates import Certificates
from tests.support.kio_library import HAS_KIO, NEEDS_KIO
from tests.support.polling import GRACE_S, poll
from tests.support.table_reading import table_rows

from .apache_kafka import ApacheKafka
from .needs import needs_broker

if HAS_KIO:
    from kio.schema.streams_group_heartbeat.v0 import request as heartbeat
    from kio.schema.streams_group_heartbeat.v0.response import StreamsGroupHeartbeatResponse
    from kio.serial import entity_reader, entity_writer
    from kio.static.primitive import i16, i32, i32Timedelta

#: Brokers have offered streams groups since 4.2, and an early access before.
VERSION: Final = "4.4.0"
GROUP: Final = "streaming"
#: Codes of a coordinator that loads, or is not there yet.
_NOT_YET: Final = (14, 15, 16)
#: Header of a request: API key and version, correlation id, client id, no tagged field.
_HEADER: Final = b"\x00\x58\x00\x00" + b"\x00\x00\x00\x07" + b"\x00\x0astreams-kw" + b"\x00"


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
        frame = io.BytesIO(_HEADER)
        frame.seek(0, io.SEEK_END)
        entity_writer(type(request))(frame, request)
        body = frame.getvalue()
        self._sock.sendall(len(body).to_bytes(4, "big") + body)
        size = int.from_bytes(self._received(4), "big")
        # The header: correlation id, no tagged field.
        response, _ = entity_reader(StreamsGroupHeartbeatResponse)(self._received(size), 5)
        if response.error_code not in _NOT_YET:
            assert response.error_code == 0, response
            self._epoch = response.member_epoch

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
def test_members_of_a_streams_group_have_the_partitions_of_their_tasks(
    tmp_path: Path, certificates: Certificates
) -> None:
    needs_broker(VERSION)
    with ApacheKafka(VERSION, tmp_path, certificates) as kafka:
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
            [group] = table_rows(servers, "groups", kafka__group__id=GROUP)
    POOL.close_idle()
    assert (row["memberId"], row["clientId"], row["host"]) == (member.id, "streams-kw", "/127.0.0.1")
    places = [(wide, 0), (wide, 1), (wide, 2), (narrow, 0)]
    assert [(each["topic"], each["partition"]) for each in row["assignment"]] == sorted(places)
    assert row["memberEpoch"] > 0
    assert (group["type"], group["state"], group["members"]) == ("streams", "Stable", 1)
