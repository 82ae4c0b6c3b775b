"""Logs, settings, messages and faults of the embedded broker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_kafkawire.broker import BrokerConfig, Fault, FaultKind
from spark_kafkawire.broker.log import (
    FileSlice,
    Log,
    LogLimits,
    OversizeMessage,
    check_produced,
    valid_size,
)
from spark_kafkawire.broker.log_directory import LogDirectory, check_topic
from spark_kafkawire.broker.server import CONNECT, NOT_KAFKA
from spark_kafkawire.errors import BrokerError, CorruptDataError, OptionError
from spark_kafkawire.protocol.v07 import EARLIEST_TIME, LATEST_TIME, ErrorCode
from tests.support import replay
from tests.support.cases import for_each
from tests.support.embedded import StartBroker, small_broker
from tests.support.message_sets import gzipped, message

NEVER = 1 << 60


def open_log(folder: Path, *, segment_size_max: int = 100, flush_interval: int = 1) -> Log:
    return Log(
        folder, LogLimits(segment_size_max, NEVER, flush_interval), recover=False, clock_ms=lambda: 5000
    )


def segment(folder: Path, start_offset: int) -> Path:
    return folder / f"{start_offset:020d}.kafka"


def test_readers_see_the_flushed_part_of_a_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, flush_interval=3)
    log.append(b"a" * 10, 1)
    log.append(b"b" * 10, 2)
    log.append(b"c" * 10, 1)
    assert log.read(0, 1000) == FileSlice(segment(tmp_path, 0), 0, 20)
    assert log.read(20, 1000) is None
    assert log.offsets_before(LATEST_TIME, 1) == (20,)
    with pytest.raises(BrokerError):
        log.read(21, 1000)
    log.flush()
    assert log.read(15, 1000) == FileSlice(segment(tmp_path, 0), 15, 15)


def test_a_flush_without_new_messages_shows_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(b"holds no message", 0)
    log.flush()
    assert log.offsets_before(LATEST_TIME, 10) == (0,)
    log.append(b"one", 1)
    assert log.offsets_before(LATEST_TIME, 10) == (19, 0)


def test_a_segment_of_exactly_the_largest_size_is_not_closed(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_size_max=10)
    log.append(b"x" * 10, 1)
    log.append(b"y", 1)
    log.append(b"z", 1)
    assert [(item.start_offset, item.size) for item in log.segments] == [(0, 11), (11, 1)]
    assert log.read(10, 100) == FileSlice(segment(tmp_path, 0), 10, 1)
    assert log.read(11, 100) == FileSlice(segment(tmp_path, 11), 0, 1)


def test_closing_a_segment_makes_all_of_it_visible(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_size_max=10, flush_interval=1000)
    log.append(b"x" * 11, 1)
    assert log.offsets_before(LATEST_TIME, 10) == (0,)
    log.append(b"y", 1)
    assert log.offsets_before(LATEST_TIME, 10) == (11, 0)


def test_a_negative_size_reads_as_java_computes_and_is_nothing_at_the_end(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(b"x" * 10, 1)
    assert log.read(3, -5) == FileSlice(segment(tmp_path, 0), 3, -5)
    assert log.read(10, -5) is None


def test_the_earliest_offset_is_one_whatever_is_asked(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_size_max=1)
    for _ in range(3):
        log.append(b"xx", 1)
    assert log.offsets_before(EARLIEST_TIME, 10) == (0,)
    assert log.offsets_before(EARLIEST_TIME, 0) == ()
    assert log.offsets_before(LATEST_TIME, 10) == (6, 4, 2, 0)
    assert log.offsets_before(4999, 10) == ()
    assert log.offsets_before(5000, 2) == (6, 4)


def test_an_append_that_fails_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path)
    log.append(b"kept", 1)
    written: list[int] = []

    def write_half(descriptor: int, data: memoryview) -> int:
        if written:
            raise OSError(28, "No space left on device")
        written.append(real_write(descriptor, data[:2]))
        return written[0]

    real_write = os.write
    with monkeypatch.context() as patch:
        patch.setattr("os.write", write_half)
        with pytest.raises(OSError, match="No space left"):
            log.append(b"lost", 1)
    assert segment(tmp_path, 0).read_bytes() == b"kept"
    log.append(b"next", 1)
    assert segment(tmp_path, 0).read_bytes() == b"keptnext"
    assert log.offsets_before(LATEST_TIME, 1) == (8,)


def test_offsets_of_a_segment_that_was_just_deleted_count_it_as_ancient(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_size_max=1)
    log.append(b"xx", 1)
    log.append(b"yy", 1)
    segment(tmp_path, 0).unlink()
    assert log.offsets_before(0, 10) == (0,)


def open_directory(log_dir: Path, **properties: str) -> LogDirectory:
    return LogDirectory(
        small_broker(log_dir, {name.replace("_", "."): text for name, text in properties.items()})
    )


def test_a_topic_is_new_once_whatever_partitions_it_gets(tmp_path: Path) -> None:
    logs, new = open_directory(tmp_path), list[str]()
    logs.on_new_topic = new.append
    for partition in (2, 0, 2):
        logs.get_or_create("t", partition)
    assert new == ["t"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t-0", "t-2"]
    assert logs.get("t", 1) is None


def test_retention_keeps_what_would_go_below_the_size(tmp_path: Path) -> None:
    logs = open_directory(tmp_path, log_retention_size="20", log_file_size="5")
    log = logs.get_or_create("t", 0)
    for _ in range(4):
        log.append(b"x" * 10, 1)
    assert logs.delete_old() == 2
    assert log.size == 20
    log.append(b"x" * 9, 1)
    assert logs.delete_old() == 0


@for_each("topic", ["a", "a-b", "ü", "rocket-🚀", "x" * 255, "🚀" * 127 + "x", "a b", "..."])
def test_legal_topics_are_those_of_0_7_2(topic: str) -> None:
    check_topic(topic, 255)


@for_each(
    "topic",
    [
        "",
        ".",
        "..",
        "a/b",
        "a\0",
        "a\x1f",
        "\x7f",
        "\x9f",
        "\ue000",
        "\uf8ff",
        "\ufff0",
        "\ufffd",
        "x" * 256,
        "🚀" * 128,
    ],
)
def test_illegal_topics_are_those_of_0_7_2(topic: str) -> None:
    with pytest.raises(BrokerError) as raised:
        check_topic(topic, 255)
    assert raised.value.code == ErrorCode.UNKNOWN


def test_a_topic_that_ends_in_a_number_finds_its_logs_again(tmp_path: Path) -> None:
    open_directory(tmp_path).get_or_create("a-1", 2)
    logs = open_directory(tmp_path)
    assert logs.topics == ("a-1",)
    assert logs.get("a-1", 2)


NEEDED = {"brokerid": "7", "log.dir": "/logs"}


def test_defaults_are_those_of_0_7_2_on_loopback() -> None:
    config = BrokerConfig.from_properties(NEEDED)
    assert (config.broker_id, config.log_dir) == (7, Path("/logs"))
    assert (config.hostname, config.port) == ("127.0.0.1", 6667)
    assert config.max_socket_request_bytes == 104_857_600
    assert config.max_message_size == 1_000_000
    assert config.max_topic_name_length == 255
    assert config.log_file_size == 1_073_741_824
    assert config.log_flush_interval == 500
    assert config.flush_interval_ms("t") == 3000
    assert config.partition_count("t") == 1
    assert config.retention_ms("t") == 7 * 24 * 3_600_000
    assert config.segment_age_max_ms("t") == 7 * 24 * 3_600_000
    assert config.log_retention_size == -1
    assert config.log_cleanup_interval_mins == 10
    assert config.zk_session_timeout_ms == 6000
    assert config.zookeeper is None


def test_topics_have_settings_of_their_own() -> None:
    config = BrokerConfig.from_properties(
        {
            **NEEDED,
            "num.partitions": "3",
            "topic.partition.count.map": "a:5, b-c:1",
            "topic.log.file.size": "a:100",
            "topic.log.roll.hours": "a:1",
            "topic.log.retention.hours": "a:2",
            "log.default.flush.interval.ms": "70",
            "topic.flush.intervals.ms": "a:30",
        }
    )
    assert [config.partition_count(topic) for topic in ("a", "b-c", "other")] == [5, 1, 3]
    assert config.segment_size_max("a") == 100
    assert config.segment_age_max_ms("a") == 3_600_000
    assert config.retention_ms("a") == 7_200_000
    assert [config.flush_interval_ms(topic) for topic in ("a", "other")] == [30, 70]


def test_zookeeper_can_be_named_and_switched_off() -> None:
    for connect in ("h", "h:2181/kafka", "a.b:1,127.0.0.1:2/x/y"):
        named = {**NEEDED, "zk.connect": connect}
        assert BrokerConfig.from_properties(named).zookeeper == connect
    assert BrokerConfig.from_properties({**named, "enable.zookeeper": "false"}).zookeeper is None
    with pytest.raises(OptionError, match=r"zk\.connect is missing"):
        BrokerConfig.from_properties({**NEEDED, "enable.zookeeper": "true"})


@for_each(
    ("name", "text", "reason"),
    [
        ("broker.id", "0", "unknown to a 0.7.2 broker"),
        ("log.dirs", "/a", "unknown to a 0.7.2 broker"),
        ("topic.log.retention.size", "a:1", "unknown to a 0.7.2 broker"),
        ("brokerid", "-1", "must be from 0 to 2147483647"),
        ("port", "65536", "must be from 0 to 65535"),
        ("port", "", "must be a whole number"),
        ("port", "9_092", "must be a whole number"),
        ("port", "9092.0", "must be a whole number"),
        ("num.partitions", "0", "must be from 1"),
        ("log.file.size", "4", "must be from 5"),
        ("log.dir", "", "must not be empty"),
        ("zk.connect", "host:port", "must be host:port,host:port/chroot"),
        ("zk.connect", "", "must be host:port,host:port/chroot"),
        ("zk.connect", "h:1,,h:2", "must be host:port,host:port/chroot"),
        ("enable.zookeeper", "yes", "must be true or false"),
        ("topic.partition.count.map", "a", "must be topic:number"),
        ("topic.partition.count.map", "a:x", "must be a whole number"),
        ("topic.partition.count.map", "a:0", "must be from 1"),
    ],
)
def test_a_wrong_property_is_named_in_one_line(name: str, text: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason) as raised:
        BrokerConfig.from_properties({**NEEDED, name: text})
    assert name in str(raised.value)
    assert "\n" not in str(raised.value)


GOOD = message(b"good")
NESTED = GOOD + gzipped(b"one", b"two", b"three") + message(b"")
LARGEST = message(b"l" * 100)
LARGE = message(b"l" * 101)
WRONG_CRC = message(b"wrong")[:-1] + b"!"
NO_GZIP = message(b"no gzip", attributes=1)


@for_each(
    ("message_set", "size", "count"),
    [
        # Messages are counted as deep as they are nested.
        (NESTED, len(NESTED), 5),
        # Less than a length is an empty set, and what the end cuts is dropped.
        *((tail, 0, 0) for tail in (b"", b"\0", b"\0\0\0")),
        *(
            (GOOD + tail, len(GOOD), 1)
            for tail in (
                b"\0",
                b"\0\0\0",
                GOOD[:-1],
                b"\0\0\0\x03\1",
                b"\0\0\0\x64\7",
                b"\x7f\xff\xff\xff\1\0",
            )
        ),
        (LARGEST, len(LARGEST), 1),
    ],
)
def test_what_is_whole_is_stored_and_counted(message_set: bytes, size: int, count: int) -> None:
    assert check_produced(message_set, 100) == (size, count)


@for_each(
    ("message_set", "error"),
    [
        pytest.param(GOOD[:-1], CorruptDataError, id="first is cut"),
        pytest.param(WRONG_CRC, CorruptDataError, id="wrong CRC"),
        pytest.param(GOOD + WRONG_CRC, CorruptDataError, id="wrong CRC later"),
        pytest.param(GOOD + b"\0\0\0\0", CorruptDataError, id="length 0"),
        pytest.param(GOOD + b"\xff\xff\xff\xff", CorruptDataError, id="length -1"),
        pytest.param(GOOD + b"\0\0\0\x07\2\0\0\0\0\0\0", CorruptDataError, id="magic 2"),
        pytest.param(GOOD + b"\0\0\0\x05\1\0\0\0\0", CorruptDataError, id="length 5 with magic 1"),
        pytest.param(NO_GZIP, CorruptDataError, id="no gzip"),
        pytest.param(WRONG_CRC + LARGE, CorruptDataError, id="wrong CRC before an oversize one"),
        pytest.param(LARGE[:-1] + b"!", CorruptDataError, id="oversize with a wrong CRC"),
        pytest.param(LARGE, OversizeMessage, id="oversize alone"),
        pytest.param(GOOD + LARGE, OversizeMessage, id="oversize later"),
        pytest.param(LARGE + WRONG_CRC, OversizeMessage, id="oversize before a wrong CRC"),
        pytest.param(LARGE + b"\0\0\0\0", OversizeMessage, id="oversize before length 0"),
        pytest.param(NO_GZIP + LARGE, OversizeMessage, id="oversize after damaged gzip"),
    ],
)
def test_the_first_fault_of_a_set_is_why_it_is_refused(message_set: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_produced(message_set, 100)


def test_every_cut_of_a_segment_recovers_its_whole_messages() -> None:
    whole = [message(b"a"), gzipped(b"b", b"c"), message(b""), message(b"d" * 50)]
    segment = b"".join(whole)
    ends = [sum(map(len, whole[:count])) for count in range(len(whole) + 1)]
    for size in range(len(segment) + 1):
        assert valid_size(memoryview(segment)[:size]) == max(end for end in ends if end <= size)


def test_recovery_does_not_look_into_compressed_messages() -> None:
    segment = GOOD + NO_GZIP + GOOD
    assert valid_size(memoryview(segment)) == len(segment)


LOG = ("t", 0)
STORED = message(b"stored")
RESPONSE = (len(STORED) + 2).to_bytes(4, "big") + b"\0\0" + STORED
FETCH = replay.fetch_request(LOG, 0, 1000)


def exchange(start_broker: StartBroker, fault: Fault) -> tuple[bytes, str]:
    """Bytes that follow a FETCH of a stored message, up to one byte more than the response, and
    how they end."""
    broker = start_broker(faults=[fault])
    replay.produce(broker.port, LOG, STORED)
    with replay.connect(broker.port) as sock:
        sock.sendall(FETCH)
        return replay.receive(sock, len(RESPONSE) + 1, replay.SILENCE_S)


@pytest.mark.parametrize(
    ("nth", "kind", "size", "expected"),
    [
        (2, FaultKind.DROP, 0, (RESPONSE, "silent")),
        (1, FaultKind.DROP, 0, (b"", "closed")),
        (1, FaultKind.CUT, 9, (RESPONSE[:9], "closed")),
        (1, FaultKind.STALL, 9, (RESPONSE[:9], "silent")),
        (1, FaultKind.SHORT, 9, (b"\0\0\0\x05\0\0" + STORED[:3], "silent")),
        (1, FaultKind.GARBAGE, 0, (NOT_KAFKA[: len(RESPONSE) + 1], "full")),
    ],
)
def test_a_fault_meets_the_response_that_it_counts(
    start_broker: StartBroker, nth: int, kind: FaultKind, size: int, expected: tuple[bytes, str]
) -> None:
    assert exchange(start_broker, Fault("FETCH", nth, kind, size)) == expected


def test_flip_changes_one_bit(start_broker: StartBroker) -> None:
    response, _ = exchange(start_broker, Fault("FETCH", 1, FaultKind.FLIP, 7))
    assert int.from_bytes(response, "big") ^ int.from_bytes(RESPONSE, "big") in (
        1 << 8 * (len(RESPONSE) - 8) + bit for bit in range(8)
    )


def test_a_dropped_produce_is_not_stored_and_a_cut_one_is(start_broker: StartBroker) -> None:
    broker = start_broker(faults=[Fault("PRODUCE", 1, FaultKind.DROP), Fault("PRODUCE", 2, FaultKind.CUT)])
    replay.produce(broker.port, ("dropped", 0), STORED)
    replay.produce(broker.port, ("cut", 0), STORED)
    assert replay.end_offset(broker.port, ("dropped", 0)) == 0
    assert replay.end_offset(broker.port, ("cut", 0)) == len(STORED)


def test_requests_are_counted_over_all_connections(start_broker: StartBroker) -> None:
    broker = start_broker(faults=[Fault("FETCH", 3, FaultKind.DROP)])
    answers = []
    for _ in range(4):
        with replay.connect(broker.port) as sock:
            sock.sendall(FETCH)
            answers.append(replay.receive(sock, 6)[1])
    assert answers == ["full", "full", "closed", "full"]


def test_a_connection_can_be_closed_before_its_first_request(start_broker: StartBroker) -> None:
    broker = start_broker(faults=[Fault(CONNECT, 1, FaultKind.DROP)])
    with replay.connect(broker.port) as sock:
        assert replay.receive(sock, 1) == (b"", "closed")
    assert replay.end_offset(broker.port, LOG) == 0
