"""Ranges read from a broker over real sockets: whole, in packs, damaged, and through every fault."""

from __future__ import annotations

import contextlib
import logging
import shutil
import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_kafkawire.broker import BrokerConfig, BrokerServer, Fault, FaultKind
from spark_kafkawire.clients.reading.fetcher import Fetcher
from spark_kafkawire.clients.reading.pack import Pack
from spark_kafkawire.clients.reading.task import FetchTask, MessageCrossesStop
from spark_kafkawire.clients.reading.v07 import MessageFeed, Stitcher, Window, Windows
from spark_kafkawire.cluster.v07.cluster import V07Cluster
from spark_kafkawire.errors import (
    BrokerError,
    ConnectionLost,
    CorruptDataError,
    DataLossError,
    KafkaWireError,
    LimitError,
    OptionError,
    ProtocolError,
    RequestTimedOut,
)
from spark_kafkawire.model import Broker, Leader, OffsetRange, TopicPartition
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.pool import POOL, Pool
from spark_kafkawire.options import BadRecords, Discovery, FetchOptions, NetOptions
from spark_kafkawire.protocol.v07 import OffsetsRequest, ProduceRequest
from spark_kafkawire.records.damage import Damage, Whole
from spark_kafkawire.records.message_set.encoding import encode
from tests.records.message_set.trees import column_rows
from tests.support.settings import net_07, settings_07

NET = net_07(5.0, retries=3, backoff_s=0.001)
PARTITION = TopicPartition("t", 0, 0)


@contextlib.contextmanager
def serving(log_dir: Path, *faults: Fault, **properties: str) -> Iterator[Broker]:
    """A broker on ``log_dir`` that fails as the test says."""
    names = {name.replace("_", "."): value for name, value in properties.items()}
    config = BrokerConfig.from_properties(
        {"brokerid": "0", "port": "0", "log.dir": str(log_dir), "log.flush.interval": "1", **names}
    )
    with BrokerServer(config, faults=faults) as server:
        yield Broker(0, "127.0.0.1", server.port)


def produce(broker: Broker, *values: bytes, compression: str = "none") -> int:
    """Append one message set to the log; where the log ends afterwards."""
    message_set = bytes(encode(pa.array(values, pa.binary()), compression))
    with Client.connect(broker, settings_07(5.0)) as client:
        client.send(ProduceRequest(PARTITION.topic, PARTITION.partition, message_set))
        end: int = client.request(OffsetsRequest(PARTITION.topic, PARTITION.partition, -1, 1)).offsets[0]
    return end


def task(broker: Broker, stop: int, start: int = 0, **options: Any) -> FetchTask:
    return FetchTask(OffsetRange(PARTITION, start, stop), Leader(broker), **options)


def fetcher_of(task: FetchTask, options: FetchOptions, net: NetOptions, connections: Pool = POOL) -> Fetcher:
    cluster = V07Cluster(Discovery(), net, (task.leader.broker,))
    return Fetcher(task, cluster, options, net, connections=connections)


NO_RETRY = net_07(5.0, retries=0)
IMPATIENT = net_07(0.3, retries=1, backoff_s=0.001)
SMALL = FetchOptions(fetch_bytes=4096, fetches_in_flight=4)
VALUES = [b"%06d" % number * 20 for number in range(2000)]
ENTRY_SIZE = 10 + 120


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A partition folder with VALUES in several segments, and where the log ends."""
    folder = tmp_path_factory.mktemp("written")
    with serving(folder, log_file_size="30000") as broker:
        for start in range(0, len(VALUES), 50):
            end = produce(broker, *VALUES[start : start + 50])
    return folder, end


@pytest.fixture
def log_dir(written: tuple[Path, int], tmp_path: Path) -> Path:
    return Path(shutil.copytree(written[0], tmp_path / "logs"))


def values(fetcher: Fetcher) -> list[bytes]:
    result: list[bytes] = []
    for columns in fetcher.columns():
        assert columns.values is not None
        result += columns.values.to_pylist()
    return result


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fetch_bytes", "in_flight"), [(131, 4), (500, 1), (4096, 4), (29_000, 1), (1 << 20, 1)]
)
def test_many_segments_come_whole_and_no_byte_twice(log_dir: Path, fetch_bytes: int, in_flight: int) -> None:
    with serving(log_dir) as broker:
        fetcher = fetcher_of(
            task(broker, ENTRY_SIZE * 2000),
            FetchOptions(fetch_bytes=fetch_bytes, fetches_in_flight=in_flight),
            NET,
        )
        assert values(fetcher) == VALUES
    assert fetcher.bytes_received == ENTRY_SIZE * 2000


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.close_idle()


def test_reads_that_follow_each_other_share_a_connection(log_dir: Path, pool: Pool) -> None:
    with serving(log_dir, Fault("CONNECT", 2, FaultKind.DROP)) as broker:
        for _ in range(3):
            fetcher = fetcher_of(task(broker, ENTRY_SIZE * 2000), SMALL, NO_RETRY, connections=pool)
            assert values(fetcher) == VALUES
        assert pool.kept_count == 1


def test_a_kept_connection_that_a_restart_broke_costs_no_retry(log_dir: Path, pool: Pool) -> None:
    with serving(log_dir) as broker:
        assert (
            values(fetcher_of(task(broker, ENTRY_SIZE * 2000), SMALL, NO_RETRY, connections=pool)) == VALUES
        )
    with serving(log_dir, port=str(broker.port)) as broker:
        assert (
            values(fetcher_of(task(broker, ENTRY_SIZE * 2000), SMALL, NO_RETRY, connections=pool)) == VALUES
        )


@pytest.mark.parametrize("kind", [FaultKind.FLIP, FaultKind.GARBAGE])
def test_a_connection_that_failed_is_not_kept(log_dir: Path, pool: Pool, kind: FaultKind) -> None:
    with serving(log_dir, Fault("FETCH", 1, kind, 100)) as broker:
        with pytest.raises(KafkaWireError):
            values(fetcher_of(task(broker, ENTRY_SIZE * 2000), SMALL, NO_RETRY, connections=pool))
        assert pool.kept_count == 0


def test_a_connection_with_windows_on_their_way_is_not_kept(log_dir: Path, pool: Pool) -> None:
    with serving(log_dir) as broker:
        columns = fetcher_of(task(broker, ENTRY_SIZE * 2000), SMALL, NO_RETRY, connections=pool).columns()
        next(columns)
        columns.close()  # type: ignore[attr-defined]  # it is a generator
    assert pool.kept_count == 0


def test_a_read_ends_where_it_was_planned_while_producers_go_on(log_dir: Path) -> None:
    with serving(log_dir) as broker:
        result: list[bytes] = []
        for columns in fetcher_of(task(broker, ENTRY_SIZE * 2000), SMALL, NET).columns():
            assert columns.values is not None
            result += columns.values.to_pylist()
            if len(result) < 200:
                produce(broker, b"later")
        assert result == VALUES


def test_a_message_larger_than_the_window_is_assembled(tmp_path: Path) -> None:
    big = bytes(range(256)) * 1000
    with serving(tmp_path) as broker:
        end = produce(broker, b"small", big, b"small too")
        assert values(fetcher_of(task(broker, end), SMALL, NET)) == [b"small", big, b"small too"]


def test_a_message_above_max_message_bytes_is_an_error_before_it_is_fetched(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        end = produce(broker, b"x" * 300_000)
        fetcher = fetcher_of(
            task(broker, end),
            FetchOptions(fetch_bytes=4096, fetches_in_flight=1, message_bytes_max=100_000),
            NET,
        )
        with pytest.raises(
            LimitError, match=r"t 0-0 on broker 0 .*300006 bytes, more than maxMessageBytes=100000"
        ):
            values(fetcher)
        assert fetcher.bytes_received == 4096


def test_a_small_compressed_message_may_not_become_more_than_the_limit(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        end = produce(broker, b"\0" * 3_000_000, compression="gzip")
        options = FetchOptions(decompressed_bytes_max=1_000_000)
        with pytest.raises(LimitError, match=r"t 0-0 on broker 0 .*maxDecompressedBytes"):
            values(fetcher_of(task(broker, end), options, NET))


@pytest.mark.parametrize(
    ("nth", "size"), [(1, 0), (1, 3), (2, 4), (7, 5), (1, 6), (2, 7), (1, 4000), (7, 4000)]
)
@pytest.mark.parametrize("kind", [FaultKind.DROP, FaultKind.CUT])
def test_a_lost_connection_is_replaced(log_dir: Path, kind: FaultKind, nth: int, size: int) -> None:
    with serving(log_dir, Fault("FETCH", nth, kind, size)) as broker:
        assert values(fetcher_of(task(broker, ENTRY_SIZE * 2000), SMALL, NET)) == VALUES


@pytest.mark.parametrize("nth", [1, 2, 3, 7])
def test_an_offset_inside_a_message_that_is_out_of_range_and_back_is_read(log_dir: Path, nth: int) -> None:
    # The lowest bit of the error code: OFFSET_OUT_OF_RANGE.
    with serving(log_dir, Fault("FETCH", nth, FaultKind.FLIP, 5)) as broker:
        assert values(fetcher_of(task(broker, ENTRY_SIZE * 2000), SMALL, NET)) == VALUES


def test_short_answers_only_cost_requests(log_dir: Path) -> None:
    faults = [Fault("FETCH", nth, FaultKind.SHORT, 6 + 100) for nth in range(1, 20)]
    with serving(log_dir, *faults) as broker:
        assert values(fetcher_of(task(broker, ENTRY_SIZE * 2000), SMALL, NET)) == VALUES


def test_retries_end_with_an_error_that_says_what_was_tried(log_dir: Path) -> None:
    with (
        serving(log_dir, *[Fault("FETCH", nth, FaultKind.DROP) for nth in range(1, 30)]) as broker,
        pytest.raises(
            ConnectionLost, match=r"gave up after 4 attempts .*t 0-0 at offset 0.*127.0.0.1:\d+.*FETCH"
        ),
    ):
        values(fetcher_of(task(broker, 1000), SMALL, NET))


def test_a_broker_that_goes_silent_is_an_error_after_the_deadline(log_dir: Path) -> None:
    faults = [Fault("FETCH", nth, FaultKind.STALL, 1000) for nth in range(1, 12)]
    with (
        serving(log_dir, *faults) as broker,
        pytest.raises(RequestTimedOut, match=r"no answer within 0.3 s \(requestTimeout\)"),
    ):
        values(fetcher_of(task(broker, 100_000), SMALL, IMPATIENT))


def test_a_peer_that_speaks_http_is_named_as_such(log_dir: Path) -> None:
    with (
        serving(log_dir, Fault("FETCH", 1, FaultKind.GARBAGE)) as broker,
        pytest.raises(ProtocolError, match=r"begins with b'HTTP'; is this the port of a Kafka"),
    ):
        values(fetcher_of(task(broker, 1000), SMALL, NET))


@pytest.mark.parametrize("byte", [20, 100, 3000])
def test_a_flipped_bit_is_found(log_dir: Path, byte: int) -> None:
    with (
        serving(log_dir, Fault("FETCH", 1, FaultKind.FLIP, byte)) as broker,
        pytest.raises(CorruptDataError, match=r"t 0-0 on broker 0 \(127.0.0.1:\d+\): ") as caught,
    ):
        values(fetcher_of(task(broker, ENTRY_SIZE * 2000), SMALL, NET))
    assert "000000" not in str(caught.value), "a payload"


@pytest.mark.parametrize("place", [1, 5, 64, ENTRY_SIZE * 700 + 9])
@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
def test_report_an_explicit_offset_inside_a_message(log_dir: Path, option: str, place: int) -> None:
    with serving(log_dir) as broker:
        whole = task(broker, ENTRY_SIZE * 2000, place, start_option=option)
        ended = task(broker, place, stop_option=option)
        message = rf"option {option}: {place} is not a message boundary of t 0-0 on"
        with pytest.raises(OptionError, match=message):
            values(fetcher_of(whole if option == "startingOffsets" else ended, SMALL, NET))


def lose_first_segments(log_dir: Path, count: int) -> int:
    """Delete the oldest segment files, as retention does; where the log starts now."""
    segments = sorted((log_dir / "t-0").iterdir())
    for segment in segments[:count]:
        segment.unlink()
    return int(segments[count].stem)


def test_bytes_that_retention_took_are_a_data_loss(log_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    earliest = lose_first_segments(log_dir, 2)
    reported = f"bytes up to {earliest} are gone"
    lenient = FetchOptions(fetch_bytes=4096, fetches_in_flight=4, fail_on_data_loss=False)
    with serving(log_dir) as broker, caplog.at_level(logging.WARNING, "spark_kafkawire"):
        cut = task(broker, ENTRY_SIZE * 2000, ENTRY_SIZE)
        loss = rf"t 0-0 at offset 130 on .*: {reported}; .*failOnDataLoss=false"
        with pytest.raises(DataLossError, match=loss):
            values(fetcher_of(cut, SMALL, NET))
        assert values(fetcher_of(cut, lenient, NET)) == VALUES[earliest // ENTRY_SIZE :]
    assert reported in caplog.text


def test_a_partition_that_ends_before_the_range_does_is_a_data_loss(log_dir: Path) -> None:
    end = ENTRY_SIZE * 2000
    with serving(log_dir) as broker:
        with pytest.raises(DataLossError, match=rf"at offset {end} on"):
            values(fetcher_of(task(broker, end + ENTRY_SIZE), SMALL, NET))
        options = FetchOptions(fetch_bytes=4096, fetches_in_flight=4, fail_on_data_loss=False)
        assert values(fetcher_of(task(broker, end + ENTRY_SIZE), options, NET)) == VALUES


def test_a_partition_that_the_broker_has_not_is_its_error(log_dir: Path) -> None:
    missing = TopicPartition("t", 77, 0)
    with (
        serving(log_dir) as broker,
        pytest.raises(
            BrokerError,
            match=r"t 0-77 at offset 0 on broker 0.*no such partition \(error 3 WRONG_PARTITION\)",
        ),
    ):
        values(fetcher_of(FetchTask(OffsetRange(missing, 0, 100), Leader(broker)), SMALL, NET))


GROWING_COUNT = 300
GROWING = [b"%06d" % number * (1 + number % 40) for number in range(GROWING_COUNT)]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, list[int]]]:
    """Logs of each codec: a folder of a broker, and the offset of each message set: one message, or a
    compressed one of three."""
    result = {}
    for codec in ("none", "gzip", "snappy"):
        folder, offsets = tmp_path_factory.mktemp(codec), [0]
        with serving(folder) as broker:
            for start in range(0, GROWING_COUNT, 3):
                values = GROWING[start : start + 3]
                if codec == "none":
                    end = produce(broker, *values)
                    offsets += [end - len(values[2]) - len(values[1]) - 20, end - len(values[2]) - 10, end]
                else:
                    offsets.append(produce(broker, *values, compression=codec))
        result[codec] = folder, offsets
    return result


def damage(log_dir: Path, *places: int) -> None:
    [segment] = log_dir.rglob("*.kafka")
    data = bytearray(segment.read_bytes())
    for location in places:
        data[location] ^= 1
    segment.write_bytes(data)


def rows(log_dir: Path, stop: int, bad_records: BadRecords, fetch_bytes: int, **options: Any) -> list[Any]:
    with serving(log_dir) as broker:
        fetcher = fetcher_of(
            task(broker, stop, **options),
            FetchOptions(fetch_bytes=fetch_bytes, fetches_in_flight=3, bad_records=bad_records),
            NET,
        )
        result: list[Any] = []
        for columns in fetcher.columns():
            assert columns.values is not None
            assert columns.next_offset is not None
            values = columns.values.to_pylist()
            if columns.corrupt is not None:
                [corrupt] = columns.corrupt.to_pylist()
                values = [(corrupt["startOffset"], corrupt["endOffset"])]
                assert columns.next_offset.tolist() == [corrupt["endOffset"]]
            result += zip(columns.offset.tolist(), values, strict=True)
        return result


#: The place of a flipped bit in its message.
PARTS = {"content": 12, "checksum": 7, "length": 3, "large length": 1, "huge length": 0, "magic": 4}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("codec", "fetch_bytes", "part"),
    [
        *(("none", size, part) for size in (1024, 1 << 20) for part in PARTS),
        *((codec, 4096, part) for codec in ("gzip", "snappy") for part in ("content", "length")),
    ],
)
def test_damage_becomes_one_row_or_none_and_all_other_messages_come(
    logs: dict[str, tuple[Path, list[int]]], tmp_path: Path, codec: str, fetch_bytes: int, part: str
) -> None:
    source, offsets = logs[codec]
    log_dir, pos = Path(shutil.copytree(source, tmp_path / "logs")), PARTS[part]
    lost = (0, 40, 41, len(offsets) - 2)
    whole = rows(log_dir, offsets[-1], BadRecords.FAIL, fetch_bytes)
    damage(log_dir, *(offsets[index] + pos for index in lost))
    result = rows(log_dir, offsets[-1], BadRecords.NULL, fetch_bytes)
    places = [(0, offsets[1]), (offsets[40], offsets[42]), (offsets[-2], offsets[-1])]
    kept = [row for row in whole if row[0] not in {offsets[index] for index in lost}]
    assert result == sorted(
        [*kept, *((location[0], location) for location in places)], key=lambda row: row[0]
    )
    assert rows(log_dir, offsets[-1], BadRecords.DROP, fetch_bytes) == kept
    with pytest.raises(CorruptDataError, match=r"(message at|begins at) offset 0"):
        rows(log_dir, offsets[-1], BadRecords.FAIL, fetch_bytes)


def test_an_option_that_is_no_boundary_is_no_damage(logs: dict[str, tuple[Path, list[int]]]) -> None:
    log_dir, offsets = logs["gzip"]
    with pytest.raises(OptionError, match=r"option startingOffsets: \d+ is not a message boundary"):
        rows(
            log_dir, offsets[-1], BadRecords.NULL, 4096, start=offsets[3] + 1, start_option="startingOffsets"
        )
    with pytest.raises(OptionError, match=r"option endingOffsets: \d+ is not a message boundary"):
        rows(log_dir, offsets[9] - 1, BadRecords.DROP, 4096, stop_option="endingOffsets")


PACK_COUNT = 5
OPTIONS = FetchOptions()
PACKED = {
    partition: [b"%d %03d" % (partition, number) * 20 for number in range(40 * (1 + partition))]
    for partition in range(PACK_COUNT)
}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five partitions of several segments, one of them compressed."""
    folder = tmp_path_factory.mktemp("written")
    properties = {"log_file_size": "3000", "num_partitions": str(PACK_COUNT)}
    with serving(folder, **properties) as broker, Client.connect(broker, settings_07(5.0)) as client:
        for partition, values in PACKED.items():
            for pos in range(0, len(values), 10):
                compression = "gzip" if partition == 3 else "none"
                message_set = encode(pa.array(values[pos : pos + 10], pa.binary()), compression)
                client.send(ProduceRequest("t", partition, bytes(message_set)))
        for partition in range(PACK_COUNT):
            client.request(OffsetsRequest("t", partition, -1, 1))
    return folder


@pytest.fixture
def packed_dir(packed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(packed, tmp_path / "logs"))


def tasks_of(broker: Broker) -> list[FetchTask]:
    with Client.connect(broker, settings_07(5.0)) as client:
        ends = [client.request(OffsetsRequest("t", item, -1, 1)).offsets[0] for item in range(PACK_COUNT)]
    return [
        FetchTask(OffsetRange(TopicPartition("t", partition, 0), 0, end), Leader(broker))
        for partition, end in enumerate(ends)
    ]


def read(tasks: Sequence[FetchTask], pool: Pool, options: FetchOptions = OPTIONS) -> dict[int, list[bytes]]:
    cluster = V07Cluster(Discovery(), NET, (tasks[0].leader.broker,))
    result: dict[int, list[bytes]] = defaultdict(list)
    for part, columns in Pack(tasks, cluster, options, NET, connections=pool).columns():
        assert columns.values is not None
        result[part.range.topic_partition.partition] += columns.values.to_pylist()
    return dict(result)


@pytest.mark.parametrize("fetch_bytes", [1024, 4 << 20])
@pytest.mark.parametrize("in_flight", [1, 4])
def test_all_partitions_come_in_order(packed_dir: Path, pool: Pool, fetch_bytes: int, in_flight: int) -> None:
    with serving(packed_dir, num_partitions=str(PACK_COUNT)) as broker:
        options = FetchOptions(fetch_bytes=fetch_bytes, fetches_in_flight=in_flight)
        assert read(tasks_of(broker), pool, options) == PACKED
        assert pool.kept_count == 1


def test_a_partition_that_is_gone_is_a_data_loss_and_its_neighbours_are_read(
    packed_dir: Path, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(packed_dir, num_partitions=str(PACK_COUNT)) as broker:
        tasks = tasks_of(broker)
    shutil.rmtree(packed_dir / "t-2")
    with serving(packed_dir, num_partitions=str(PACK_COUNT)) as broker:
        moved = [FetchTask(item.range, Leader(broker)) for item in tasks]
        with pytest.raises(DataLossError, match=r"^t 0-2 at offset 0"):
            read(moved, pool)
        result = read(moved, pool, FetchOptions(fail_on_data_loss=False))
    assert result == {partition: values for partition, values in PACKED.items() if partition != 2}
    assert "t 0-2 at offset 0" in caplog.text


@pytest.mark.parametrize(
    "fault",
    [
        Fault("MULTIFETCH", 1, FaultKind.DROP),
        Fault("MULTIFETCH", 1, FaultKind.CUT, 5000),
        Fault("MULTIFETCH", 2, FaultKind.CUT, 40),
    ],
)
def test_a_connection_that_ends_is_replaced_for_all_parts(packed_dir: Path, pool: Pool, fault: Fault) -> None:
    with serving(packed_dir, num_partitions=str(PACK_COUNT)) as broker:
        ranges = [item.range for item in tasks_of(broker)]
    with serving(packed_dir, fault, num_partitions=str(PACK_COUNT)) as broker:
        tasks = [FetchTask(item, Leader(broker)) for item in ranges]
        assert read(tasks, pool, FetchOptions(fetch_bytes=8192)) == PACKED


def test_a_response_with_too_few_parts_is_an_error(packed_dir: Path, pool: Pool) -> None:
    with serving(packed_dir, num_partitions=str(PACK_COUNT)) as broker:
        ranges = [item.range for item in tasks_of(broker)]
    fault = Fault("MULTIFETCH", 1, FaultKind.SHORT, 10)
    message = r"^t 0-0 .* and 4 other ranges: broker 0 .* does not fit in a frame"
    with (
        serving(packed_dir, fault, num_partitions=str(PACK_COUNT)) as broker,
        pytest.raises(ProtocolError, match=message),
    ):
        read([FetchTask(item, Leader(broker)) for item in ranges], pool)


# Byte windows: the order in which they are asked for, and the messages that they become


def ask_all(windows: Windows[bytes]) -> list[Window]:
    asked = []
    while (window := windows.ask()) is not None:
        asked.append(window)
    return asked


def test_a_jump_forgets_what_is_held() -> None:
    windows: Windows[bytes] = Windows(0, 40, 10, 3)
    ask_all(windows)
    windows.answer(10, b"b" * 10, 10)
    windows.restart(25)
    assert windows.next_offset == 25
    assert ask_all(windows) == [Window(25, 10), Window(35, 5)]


@given(
    st.binary(min_size=1, max_size=300),
    st.integers(1, 40),
    st.integers(1, 5),
    st.lists(st.integers(0, 299), max_size=6),
    st.sets(st.integers(0, 60), max_size=8),
)
def test_the_stream_is_the_log_and_no_byte_comes_twice(
    log: bytes, window_bytes: int, in_flight: int, segment_ends: list[int], losses: set[int]
) -> None:
    windows: Windows[bytes] = Windows(0, len(log), window_bytes, in_flight)
    on_their_way: list[Window] = []
    stream, received = b"", 0
    for step in count():
        if windows.done:
            break
        on_their_way += ask_all(windows)
        if step in losses:
            windows.restart()
            on_their_way = []
            continue
        if (chunk := windows.take()) is not None:
            stream += chunk
            continue
        window = on_their_way.pop(0)
        segment_end = min((end for end in segment_ends if end > window.offset), default=len(log))
        data = log[window.offset : min(window.offset + window.size, segment_end)]
        received += len(data)
        windows.answer(window.offset, data, len(data))
    assert stream == log
    assert received == len(log)


BASE = 1000


def stitcher(size: int, message_bytes_max: int = 1 << 20) -> Stitcher:
    return Stitcher(BASE, BASE + size, FetchOptions(message_bytes_max=message_bytes_max))


def stitched(stitcher: Stitcher, chunks: list[bytes], room: int = 0) -> list[tuple[int, int, int, bytes]]:
    """All rows; each chunk comes in a frame with ``room`` before it, overwritten afterwards."""
    result = []
    for chunk in chunks:
        frame = bytearray(room) + chunk
        for columns in stitcher.feed(memoryview(frame), room):
            result += column_rows(columns)
        frame[:] = b"\xff" * len(frame)
    stitcher.finish()
    return result


def plain(*values: bytes) -> bytes:
    return bytes(encode(pa.array(values, pa.binary())))


SETS = plain(b"one", b"", b"three" * 40) + bytes(encode(pa.array([b"in", b"gzip"]), "gzip")) + plain(b"last")


@given(st.lists(st.integers(0, len(SETS)), max_size=12).map(sorted), st.integers(0, 300))
def test_every_cutting_gives_the_same_rows(cuts: list[int], room: int) -> None:
    whole = stitched(stitcher(len(SETS)), [SETS])
    assert [value for _, _, _, value in whole] == [b"one", b"", b"three" * 40, b"in", b"gzip", b"last"]
    chunks = [SETS[start:stop] for start, stop in pairwise([0, *cuts, len(SETS)])]
    assert stitched(stitcher(len(SETS)), chunks, room) == whole


def test_a_cut_message_is_decoded_together_with_what_follows_where_there_is_room() -> None:
    data = plain(*[b"%03d" % number for number in range(100)])
    chunks = [data[at : at + 450] for at in range(0, len(data), 450)]
    # The first chunk ends 8 bytes after a message, which is just the room of one of these.
    batches = {0: 0, 8: 0, 13: 0}
    for room in batches:
        cut = stitcher(len(data))
        for chunk in chunks:
            batches[room] += len(list(cut.feed(memoryview(bytearray(room) + chunk), room)))
    assert batches == {0: 5, 8: 3, 13: 3}


def test_a_message_above_the_limit_is_an_error_as_soon_as_its_length_is_known() -> None:
    data = plain(b"x" * 5000)
    with pytest.raises(LimitError, match=r"offset 1000 has 5006 bytes, more than maxMessageBytes=5005"):
        stitched(stitcher(len(data), 5005), [data[:4]])
    assert len(stitched(stitcher(len(data), 5006), [data[:4], data[4:]])) == 1


def test_a_range_that_ends_inside_a_message_is_an_error_that_says_so() -> None:
    data = plain(b"one", b"two")
    with pytest.raises(MessageCrossesStop, match=r"offset 1013 extends beyond 1020, the end of the range"):
        stitched(stitcher(20), [data[:20]])
    with pytest.raises(MessageCrossesStop):  # inside of a length
        stitched(stitcher(15), [data[:15]])


def test_damage_tells_the_offset_of_its_message() -> None:
    damaged = bytearray(plain(b"one", b"two"))
    damaged[-1] ^= 1
    with pytest.raises(CorruptDataError) as caught:
        stitched(stitcher(len(damaged)), [bytes(damaged[:16]), bytes(damaged[16:])])
    assert caught.value.offset == BASE + 13


def test_an_impossible_length_is_damage() -> None:
    data = plain(b"one") + struct.pack(">i", -5) + b"junk"
    with pytest.raises(CorruptDataError):
        stitched(stitcher(len(data)), [data])


def test_nothing_of_a_file_follows_damage_that_ends_after_the_range() -> None:
    feed = MessageFeed(OffsetRange(PARTITION, 0, 100), FetchOptions(), {"value"})
    feed.skip_damage(Damage(0, 110, 0, 110, "damaged"))
    data = plain(*[b"v"] * 20)
    assert feed.done
    assert list(feed.whole(data, Whole(0, len(data), 110))) == []
