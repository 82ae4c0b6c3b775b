"""The embedded broker, asked by sockets alone; real answers; its listener."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.broker import BrokerConfig, BrokerServer, log_directory
from spark_kafkawire.broker import server as server_module
from spark_kafkawire.broker.handlers import Answer
from spark_kafkawire.broker.server import listen
from tests.support import golden, replay
from tests.support.embedded import StartBroker
from tests.support.message_sets import message
from tests.support.polling import poll

#: The groups of exchanges that need nothing but these brokers.
GROUPS: Final = ("produce", "multiproduce", "protocol", "fetch", "multifetch", "offsets")
#: When the exchanges about time were recorded, ms.
RECORDED_AT_MS: Final = 1795251708000
#: Modification times of the three files of lab-segs-0, s.
MODIFIED_S: Final = (1795240908, 1795244508, 1795248108)

_LIKE_THE_FIRST: Final = {
    "num.partitions": "3",
    "log.file.size": "65536",
    "log.flush.interval": "1",
    "log.retention.size": "400000",
    "topic.partition.count.map": "lab-five:5",
}
_LIMITED: Final = {
    "num.partitions": "3",
    "log.flush.interval": "1000",
    "log.default.flush.interval.ms": "1500",
    "log.default.flush.scheduler.interval.ms": "500",
    "max.message.size": "1000",
    "max.socket.request.bytes": "5000",
    "max.topic.name.length": "20",
}


@contextlib.contextmanager
def running(folder: Path, wire_format: str = "0.7") -> Iterator[list[BrokerServer]]:
    """Brokers 0, 1 and 2, with their logs in ``folder``; ``wire_format`` is what else they speak."""
    started_ns = time.monotonic_ns()

    def clock_ms() -> int:
        return RECORDED_AT_MS + (time.monotonic_ns() - started_ns) // 1_000_000

    with contextlib.ExitStack() as stack:
        brokers = []
        for broker_id, properties in enumerate((_LIKE_THE_FIRST, _LIKE_THE_FIRST, _LIMITED)):
            log_dir = folder / f"broker{broker_id}"
            if broker_id == 0:
                golden.copy_segments(log_dir, "runB-broker0/lab-fetch-0", "runB-broker0/lab-segs-0")
            config = BrokerConfig.from_properties(
                {
                    "brokerid": str(broker_id),
                    "port": "0",
                    "log.dir": str(log_dir),
                    "wire.format": wire_format,
                    **properties,
                }
            )
            brokers.append(stack.enter_context(BrokerServer(config, clock_ms=clock_ms)))
        segments = sorted((folder / "broker0" / "lab-segs-0").iterdir())
        for path, modified_s in zip(segments, MODIFIED_S, strict=True):
            os.utime(path, (modified_s, modified_s))
        yield brokers


LOG = ("t", 0)
LARGE = 30 * message(b"x" * 900_000)


def test_a_response_larger_than_all_buffers_arrives_whole(start_broker: StartBroker) -> None:
    broker = start_broker()
    replay.produce(broker.port, LOG, LARGE)
    assert replay.fetch(broker.port, LOG, 0, 1 << 30) == LARGE


def test_a_multifetch_of_several_logs_arrives_in_order(start_broker: StartBroker) -> None:
    broker = start_broker()
    sets = [message(bytes([partition]) * 200_000) for partition in range(3)]
    for partition, message_set in enumerate(sets):
        replay.produce(broker.port, ("t", partition), message_set)
    body = struct.pack(">hh", 2, 3)
    body += b"".join(struct.pack(">h1siqi", 1, b"t", partition, 0, 1 << 20) for partition in range(3))
    expected = b"\0\0" + b"".join(struct.pack(">ih", 2 + len(item), 0) + item for item in sets)
    assert replay.ask(broker.port, struct.pack(">i", len(body)) + body) == expected


def test_a_negative_size_in_a_multifetch_ends_the_stream_there(start_broker: StartBroker) -> None:
    broker = start_broker()
    replay.produce(broker.port, LOG, message(b"one"))
    fetches = [struct.pack(">h1siqi", 1, b"t", 0, 0, size) for size in (4, -(1 << 31), -(1 << 31), 4)]
    body = struct.pack(">hh", 2, len(fetches)) + b"".join(fetches)
    with replay.connect(broker.port) as sock:
        sock.sendall(struct.pack(">i", len(body)) + body)
        received, end = replay.receive(sock, 1000)
    # The length has overflowed, as an int does in Java.
    assert received == struct.pack(">ih", 2 + 4 * 6 + 8, 0) + struct.pack(">ih", 6, 0) + message(b"one")[
        :4
    ] + (struct.pack(">ih", 2 - (1 << 31), 0))
    assert end == "closed"


def test_readers_and_writers_at_the_same_time_see_whole_sets(start_broker: StartBroker) -> None:
    broker = start_broker({"log.file.size": "100000"})
    one = message(b"x" * 990)

    def write() -> None:
        for _ in range(30):
            replay.produce(broker.port, LOG, 10 * one)

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    read = b""
    while len(read) < 900 * len(one):
        read += replay.fetch(broker.port, LOG, len(read), 1 << 20)
    for writer in writers:
        writer.join()
    assert read == 900 * one


def test_stop_ends_connections_that_wait_send_or_stall(start_broker: StartBroker) -> None:
    before = replay.threads()
    broker = start_broker()
    replay.produce(broker.port, LOG, LARGE)
    with (
        replay.connect(broker.port) as idle,
        replay.connect(broker.port) as halfway,
        replay.connect(broker.port) as slow,
    ):
        halfway.sendall(b"\0\0\1\0half a request")
        slow.sendall(replay.fetch_request(LOG, 0, 1 << 30))
        assert len(replay.receive(slow, 1000)[0]) == 1000
        broker.stop()
        for sock in (idle, halfway):
            assert replay.receive(sock, 1) == (b"", "closed")
        assert replay.receive(slow, len(LARGE))[1] == "closed"
    assert replay.threads() <= before


def test_a_client_that_vanishes_in_the_middle_of_a_response_leaves_no_thread(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    replay.produce(broker.port, LOG, LARGE)
    before = threading.active_count()
    for _ in range(5):
        with replay.connect(broker.port) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.sendall(replay.fetch_request(LOG, 0, 1 << 30))
            replay.receive(sock, 1000)
    poll(lambda: threading.active_count() <= before, "the threads have ended")
    assert replay.end_offset(broker.port, LOG) == len(LARGE)


def test_a_refused_request_ends_in_fin_also_when_more_had_come(start_broker: StartBroker) -> None:
    broker = start_broker()
    with replay.connect(broker.port) as sock:
        sock.sendall(golden.exchange("protocol/unknown_type_5").request + b"and more" * 1000)
        # A reset connection would raise.
        assert sock.recv(1) == b""


def test_old_segments_are_deleted_by_the_clock(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_directory, "FIRST_CLEANUP_S", 0.01)
    start = start_broker({"log.retention.size": "0", "log.file.size": "5"})
    replay.produce(start.port, LOG, message(b"old"))
    replay.produce(start.port, LOG, message(b"new"))
    start.stop()
    broker = start_broker({"log.retention.size": "0"})
    poll(lambda: replay.offsets(broker.port, LOG, -2, 1) != (0,), "the old segment is deleted")


def test_a_segment_deleted_between_look_up_and_response_is_out_of_range(
    start_broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = start_broker({"log.retention.size": "0", "log.file.size": "5"})
    replay.produce(broker.port, LOG, message(b"old"))
    replay.produce(broker.port, LOG, message(b"new"))
    send, deleted = server_module._send, list[int]()

    def delete_and_send(connection: socket.socket, answer: Answer) -> None:
        if not deleted:
            deleted.append(broker.logs.delete_old())
        send(connection, answer)

    monkeypatch.setattr(server_module, "_send", delete_and_send)
    assert replay.ask(broker.port, replay.fetch_request(LOG, 0, 100)) == b"\0\1"
    assert deleted == [2]


def test_close_the_connection_if_a_segment_file_was_removed(start_broker: StartBroker) -> None:
    broker = start_broker()
    replay.produce(broker.port, LOG, message(b"one"))
    next((broker.config.log_dir / "t-0").iterdir()).unlink()
    with replay.connect(broker.port) as sock:
        sock.sendall(replay.fetch_request(LOG, 0, 100))
        assert replay.receive(sock, 1) == (b"", "closed")


def test_mutated_requests_never_end_the_broker(start_broker: StartBroker) -> None:
    broker = start_broker({"max.socket.request.bytes": "100000"})
    draw = random.Random(7)
    requests = [exchange.request for exchange in golden.exchanges() if len(exchange.request) < 300]
    for _ in range(200):
        request = bytearray(draw.choice(requests))
        for _ in range(draw.randrange(1, 4)):
            request[draw.randrange(len(request))] = draw.randrange(256)
        with replay.connect(broker.port) as sock:
            sock.sendall(request[: draw.randrange(1, len(request) + 1)])
            sock.shutdown(socket.SHUT_WR)
            # Whatever was asked is answered or refused, and the connection ends.
            assert replay.receive(sock, 1 << 20)[1] == "closed"
    assert replay.end_offset(broker.port, ("untouched", 0)) == 0


def test_a_topic_whose_folder_cannot_be_made_is_refused(start_broker: StartBroker) -> None:
    broker = start_broker()
    too_long_for_a_file = "ü" * 200
    replay.produce(broker.port, (too_long_for_a_file, 0), message(b"one"))
    assert replay.end_offset(broker.port, (too_long_for_a_file, 0)) == 0


#: It reads a log that only an exchange made that is not among the recordings.
NOT_REPRODUCED: Final = {"multifetch/two_good"}


@pytest.mark.parametrize("wire_format", ["0.7", "0.7,proposal"])
def test_all_recorded_exchanges_but_one_are_reproduced(wire_format: str, tmp_path: Path) -> None:
    """In order, as each builds on earlier ones. Brokers that speak another format besides are the same to a
    client that speaks 0.7."""
    exchanges = [item for item in golden.exchanges() if item.group in GROUPS]
    assert len(exchanges) == 178
    with running(tmp_path, wire_format) as brokers:
        replayed = {
            item.name: replay.differences(
                item, brokers[item.broker_id].port, brokers[item.broker_id].logs.flush_all
            )
            for item in exchanges
        }
    differing = {name: result for name, result in replayed.items() if result}
    assert differing.keys() == NOT_REPRODUCED, differing


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a socket choose")
def test_what_is_sent_over_loopback_is_not_paced_and_over_a_network_as_the_host_likes() -> None:
    def congestion_control(sock: socket.socket) -> bytes:
        return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")

    with (
        listen("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert congestion_control(accepted) == b"reno"
    with listen("0.0.0.0", 0) as listener, socket.socket() as other:
        assert congestion_control(listener) == congestion_control(other)
