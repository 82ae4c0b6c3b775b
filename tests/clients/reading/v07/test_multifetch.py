"""Packs of 0.7: the ranges of one broker in MULTIFETCHes, each as exact as a read of its own."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from spark_kafkawire.broker import Fault, FaultKind
from spark_kafkawire.clients.reading.pack import Pack
from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.cluster.v07.cluster import V07Cluster
from spark_kafkawire.errors import CorruptDataError, DataLossError, OptionError, ProtocolError
from spark_kafkawire.model import Broker, Leader, OffsetRange, TopicPartition
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.options import Discovery, FetchOptions
from spark_kafkawire.protocol.v07 import OffsetsRequest, ProduceRequest
from spark_kafkawire.records.message_set.encoding import encode
from tests.support.fetching_07 import NET, serving
from tests.support.settings import settings_07

COUNT = 5
OPTIONS = FetchOptions()
VALUES = {
    partition: [b"%d %03d" % (partition, number) * 20 for number in range(40 * (1 + partition))]
    for partition in range(COUNT)
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five partitions of several segments, one of them compressed."""
    folder = tmp_path_factory.mktemp("written")
    properties = {"log_file_size": "3000", "num_partitions": str(COUNT)}
    with serving(folder, **properties) as broker, Client.connect(broker, settings_07(5.0)) as client:
        for partition, values in VALUES.items():
            for pos in range(0, len(values), 10):
                compression = "gzip" if partition == 3 else "none"
                message_set = encode(pa.array(values[pos : pos + 10], pa.binary()), compression)
                client.send(ProduceRequest("t", partition, bytes(message_set)))
        for partition in range(COUNT):
            client.request(OffsetsRequest("t", partition, -1, 1))
    return folder


@pytest.fixture
def log_dir(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "logs"))


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.close_idle()


def tasks_of(broker: Broker) -> list[FetchTask]:
    with Client.connect(broker, settings_07(5.0)) as client:
        ends = [client.request(OffsetsRequest("t", each, -1, 1)).offsets[0] for each in range(COUNT)]
    return [
        FetchTask(OffsetRange(TopicPartition("t", partition, 0), 0, end), Leader(broker))
        for partition, end in enumerate(ends)
    ]


def read(tasks: Sequence[FetchTask], pool: Pool, options: FetchOptions = OPTIONS) -> dict[int, list[bytes]]:
    cluster = V07Cluster(Discovery(), NET, (tasks[0].leader.broker,))
    found: dict[int, list[bytes]] = defaultdict(list)
    for task, columns in Pack(tasks, cluster, options, NET, connections=pool).columns():
        assert columns.values is not None
        found[task.range.topic_partition.partition] += columns.values.to_pylist()
    return dict(found)


@pytest.mark.parametrize("fetch_bytes", [1024, 4 << 20])
@pytest.mark.parametrize("in_flight", [1, 4])
def test_all_partitions_of_a_broker_come_in_their_own_order(
    log_dir: Path, pool: Pool, fetch_bytes: int, in_flight: int
) -> None:
    with serving(log_dir, num_partitions=str(COUNT)) as broker:
        options = FetchOptions(fetch_bytes=fetch_bytes, fetches_in_flight=in_flight)
        assert read(tasks_of(broker), pool, options) == VALUES
        assert pool.kept_count == 1


def test_a_partition_that_is_gone_is_a_data_loss_and_its_neighbours_are_read(
    log_dir: Path, pool: Pool, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(log_dir, num_partitions=str(COUNT)) as broker:
        tasks = tasks_of(broker)
    shutil.rmtree(log_dir / "t-2")
    with serving(log_dir, num_partitions=str(COUNT)) as broker:
        moved = [FetchTask(each.range, Leader(broker)) for each in tasks]
        with pytest.raises(DataLossError, match=r"^t 0-2 at offset 0"):
            read(moved, pool)
        found = read(moved, pool, FetchOptions(fail_on_data_loss=False))
    assert found == {partition: values for partition, values in VALUES.items() if partition != 2}
    assert "t 0-2 at offset 0" in caplog.text


def test_a_damaged_partition_is_named(log_dir: Path, pool: Pool) -> None:
    file = min((log_dir / "t-1").iterdir())
    data = bytearray(file.read_bytes())
    data[30] ^= 1
    file.write_bytes(data)
    with (
        serving(log_dir, num_partitions=str(COUNT)) as broker,
        pytest.raises(CorruptDataError, match=r"^t 0-1 on broker 0"),
    ):
        read(tasks_of(broker), pool)


def test_an_offset_of_an_option_inside_a_message_is_an_error_of_the_option(log_dir: Path, pool: Pool) -> None:
    with serving(log_dir, num_partitions=str(COUNT)) as broker:
        tasks = tasks_of(broker)
        whole = tasks[1].range
        inside = OffsetRange(whole.topic_partition, 7, whole.stop_offset)
        tasks[1] = FetchTask(inside, tasks[1].leader, start_option="startingOffsets")
        with pytest.raises(
            OptionError, match=r"^option startingOffsets: 7 is not a message boundary of t 0-1"
        ):
            read(tasks, pool)


@pytest.mark.parametrize(
    "fault",
    [
        Fault("MULTIFETCH", 1, FaultKind.DROP),
        Fault("MULTIFETCH", 1, FaultKind.CUT, 5000),
        Fault("MULTIFETCH", 2, FaultKind.CUT, 40),
    ],
)
def test_a_connection_that_ends_is_replaced_for_the_whole_pack(
    log_dir: Path, pool: Pool, fault: Fault
) -> None:
    with serving(log_dir, num_partitions=str(COUNT)) as broker:
        ranges = [each.range for each in tasks_of(broker)]
    with serving(log_dir, fault, num_partitions=str(COUNT)) as broker:
        tasks = [FetchTask(each, Leader(broker)) for each in ranges]
        assert read(tasks, pool, FetchOptions(fetch_bytes=8192)) == VALUES


def test_a_response_with_too_few_parts_is_an_error(log_dir: Path, pool: Pool) -> None:
    with serving(log_dir, num_partitions=str(COUNT)) as broker:
        ranges = [each.range for each in tasks_of(broker)]
    fault = Fault("MULTIFETCH", 1, FaultKind.SHORT, 10)
    message = r"^t 0-0 .* and 4 other ranges: broker 0 .* does not fit in a frame"
    with (
        serving(log_dir, fault, num_partitions=str(COUNT)) as broker,
        pytest.raises(ProtocolError, match=message),
    ):
        read([FetchTask(each, Leader(broker)) for each in ranges], pool)
