"""One range read in the format of the proposal, over real sockets: whole, through every fault, and from peers
that do not speak it."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from spark_kafkawire.broker import BrokerConfig, BrokerServer, Fault, FaultKind
from spark_kafkawire.clients.reading.fetcher import Fetcher
from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.cluster.v07.cluster import V07Cluster
from spark_kafkawire.errors import (
    ConnectionLost,
    CorruptDataError,
    DataLossError,
    OptionError,
    ProtocolError,
)
from spark_kafkawire.model import (
    Broker,
    Leader,
    OffsetRange,
    TopicPartition,
    WireFormat,
)
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.options import Discovery, FetchOptions, NetOptions
from spark_kafkawire.protocol import proposal
from spark_kafkawire.protocol.v07 import FetchRequest
from spark_kafkawire.records.message_set.encoding import encode
from tests.support import replay
from tests.support.log_server import HOST, read_frame
from tests.support.settings import net_07

NET: Final = net_07(5.0, retries=3, backoff_s=0.001)
POLLING: Final = FetchOptions(wire_format=WireFormat.PROPOSAL)
PARTITION: Final = TopicPartition("t", 0, 0)
VALUES: Final = [b"%06d" % number * 20 for number in range(1000)]
ENTRY_SIZE: Final = 10 + 120
END: Final = ENTRY_SIZE * len(VALUES)
BOTH: Final = "0.7,proposal"
#: The first Fetch of each connection asks for nothing, and proves that the proposal is spoken.
FIRST: Final = 2


@contextlib.contextmanager
def serving(log_dir: Path, *faults: Fault, **properties: str) -> Iterator[BrokerServer]:
    """A broker that holds VALUES in segments of 30,000 bytes, and fails as the test says."""
    names = {"wire.format": BOTH} | {name.replace("_", "."): value for name, value in properties.items()}
    config = BrokerConfig.from_properties(
        {"brokerid": "0", "port": "0", "log.dir": str(log_dir), "log.flush.interval": "1", **names}
        | {"log.file.size": "30000"}
    )
    with BrokerServer(config, faults=faults) as server:
        if not server.logs.topics:
            for start in range(0, len(VALUES), 50):
                produce(server, *VALUES[start : start + 50])
        yield server


def produce(server: BrokerServer, *values: bytes) -> None:
    replay.produce(server.port, ("t", 0), bytes(encode(pa.array(values, pa.binary()), "none")))


def fetcher_of(
    server: BrokerServer | Broker, stop: int = END, start: int = 0, *, options: FetchOptions = POLLING,
    net: NetOptions = NET, partition: TopicPartition = PARTITION, connections: Pool | None = None,
) -> Fetcher:  # fmt: skip
    broker = server if isinstance(server, Broker) else Broker(0, HOST, server.port)
    option = "startingOffsets" if start else None
    task = FetchTask(OffsetRange(partition, start, stop), Leader(broker), start_option=option)
    return Fetcher(
        task, V07Cluster(Discovery(), net, (broker,)), options, net, connections=connections or Pool()
    )


def values(fetcher: Fetcher) -> list[bytes]:
    result: list[bytes] = []
    for columns in fetcher.columns():
        assert columns.values is not None
        result += columns.values.to_pylist()
    return result


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """All requests that clients send once their connections are there."""
    requests: list[Any] = []
    send = Client.send

    def note(client: Client, request: object) -> None:
        requests.append(request)
        send(client, request)

    monkeypatch.setattr(Client, "send", note)
    return requests


def test_many_segments_come_whole_by_fetches_of_the_proposal(tmp_path: Path, sent: list[Any]) -> None:
    with serving(tmp_path) as server:
        fetcher = fetcher_of(server)
        assert values(fetcher) == VALUES
    assert fetcher.bytes_received == END
    assert {type(request) for request in sent} == {proposal.FetchRequest}
    offsets = [topic.offsets for request in sent for topic in request.topic_offsets]
    assert offsets == sorted(set(offsets))
    assert len(offsets) == len(list((tmp_path / "t-0").iterdir()))


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (7, 9), (230, 999), (1000, 1000)])
def test_what_comes_from_outside_of_the_range_is_not_of_it(tmp_path: Path, start: int, stop: int) -> None:
    with serving(tmp_path) as server:
        assert values(fetcher_of(server, ENTRY_SIZE * stop, ENTRY_SIZE * start)) == VALUES[start:stop]


def test_a_message_larger_than_an_answer_is_assembled(tmp_path: Path) -> None:
    large = bytes(9_000_000)
    with serving(tmp_path, max_message_size="10000000") as server:
        produce(server, large, b"after")
        end = replay.end_offset(server.port, ("t", 0))
        assert values(fetcher_of(server, end)) == [*VALUES, large, b"after"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "size"), [(FaultKind.DROP, 0), (FaultKind.CUT, 3), (FaultKind.CUT, 20), (FaultKind.CUT, 10_000)]
)
@pytest.mark.parametrize("nth", [1, FIRST, FIRST + 1, FIRST + 3])
def test_a_lost_connection_is_replaced(tmp_path: Path, kind: FaultKind, size: int, nth: int) -> None:
    with serving(tmp_path, Fault("Fetch", nth, kind, size)) as server:
        assert values(fetcher_of(server)) == VALUES


def test_a_flipped_bit_is_found(tmp_path: Path) -> None:
    # The correlation id, the version, and a value.
    for byte, error in ((4, ProtocolError), (9, ProtocolError), (400, CorruptDataError)):
        with (
            serving(tmp_path, Fault("Fetch", FIRST, FaultKind.FLIP, byte)) as server,
            pytest.raises(error, match=r"broker 0 \(127.0.0.1:\d+\)"),
        ):
            values(fetcher_of(server))


def test_what_retention_took_is_a_loss_or_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serving(tmp_path):
        pass
    segments = sorted((tmp_path / "t-0").iterdir())
    for segment in segments[:2]:
        segment.unlink()
    earliest = int(segments[2].stem)
    with serving(tmp_path) as server:
        with pytest.raises(
            DataLossError, match=rf"t 0-0 at offset 130 on .*: bytes up to {earliest} are gone"
        ):
            values(fetcher_of(server, start=ENTRY_SIZE))
        lenient = FetchOptions(fail_on_data_loss=False, wire_format=WireFormat.PROPOSAL)
        with caplog.at_level(logging.WARNING, "spark_kafkawire"):
            result = values(fetcher_of(server, start=ENTRY_SIZE, options=lenient))
    assert result == VALUES[earliest // ENTRY_SIZE :]
    assert f"bytes up to {earliest} are gone" in caplog.text


def test_report_a_broker_of_07_alone_in_one_line_at_once(tmp_path: Path) -> None:
    patient = net_07(30.0, retries=100, backoff_s=60.0, retry_timeout_s=3600.0)
    with serving(tmp_path, wire_format="0.7") as server:
        with pytest.raises(OptionError) as error:
            values(fetcher_of(server, net=patient))
        address = server.address
        # The same broker serves who asks it in 0.7.
        assert values(fetcher_of(server, options=FetchOptions())) == VALUES
    assert str(error.value) == (
        f"t 0-0 at offset 0: broker 0 ({address}): option wireFormat: the broker supports Kafka 0.7 and "
        "closes on requests of the proposal; remove the option, or start a broker that supports it "
        "(wire.format=0.7,proposal)"
    )


@contextlib.contextmanager
def peer(answer: Callable[[bytes], bytes | None]) -> Iterator[Broker]:
    """Something that answers each frame so; None closes."""

    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    while (frame := read_frame(connection)) is not None:
                        if (data := answer(bytes(frame))) is None:
                            break
                        connection.sendall(data)

    with socket.create_server((HOST, 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        try:
            yield Broker(0, HOST, listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(60.0)


def test_a_peer_that_closes_on_everything_is_tried_again_and_asked_what_it_is() -> None:
    # So does a later Kafka, which knows no such request.
    with peer(lambda _: None) as broker, pytest.raises(ConnectionLost) as error:
        values(fetcher_of(broker))
    assert "gave up after 4 attempts" in str(error.value)
    assert str(error.value).endswith("does the broker support the proposal (wireFormat)?")
    assert str(error.value).isprintable()


def test_a_broker_that_dies_between_two_questions_is_not_taken_for_one_of_07() -> None:
    """Only the answer of 0.7 and the close behind it, on one connection, prove that."""
    asked: list[bytes] = []

    def die(frame: bytes) -> bytes | None:
        asked.append(frame[:2])
        return None

    with peer(die) as broker, pytest.raises(ConnectionLost):
        values(fetcher_of(broker))
    ids = [b"\x02\xbd", b"\x00\x02"]
    assert asked == ids * 4


def test_reads_of_both_formats_share_no_connection(tmp_path: Path, sent: list[Any]) -> None:
    pool = Pool()
    with serving(tmp_path) as server:
        for options in (POLLING, FetchOptions(), POLLING):
            assert values(fetcher_of(server, options=options, connections=pool)) == VALUES
        assert pool.kept_count == 2
        pool.close_idle()
    assert {type(request) for request in sent} == {proposal.FetchRequest, FetchRequest}
