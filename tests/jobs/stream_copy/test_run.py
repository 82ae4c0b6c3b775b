"""``jobs/stream_copy.py`` from and to brokers: its options, its copies, its restarts, and its end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from kazoo.client import KazooClient
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.jobs.arguments import read_arguments
from spark_kafkawire.jobs.stream_copy import StreamCopy, StreamCopyOptions
from tests.support import librdkafka
from tests.support.corpus import GZIP_TOPIC, partitions_of, recorded
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.polling import INTERVAL_S
from tests.support.spark_streams import STARTS_MAX, TOO_BUSY, WAIT_MAX_S, started
from tests.support.sparks import READ_LIMITS, STREAM_SINKS

from ..disks import SmallDisk
from ..submitting import ROOT, RunHere, command, environment, submit_command
from ..work import Halfway

SCRIPT: Final = command("stream_copy")
SOURCE: Final = "--source-option=kafka.bootstrap.servers=127.0.0.1:1"
SOURCE_07: Final = "--source-option=zookeeper.connect=127.0.0.1:1"
TARGET_07: Final = "--target-option=zookeeper.connect=127.0.0.1:2"
TARGET: Final = "--target-option=kafka.bootstrap.servers=127.0.0.1:2"
GOOD: Final = (SOURCE, TARGET, "--topic", "t", "--checkpoint", "c")
GOOD_07: Final = (SOURCE_07, TARGET, "--topic", "t", "--checkpoint", "c")


def options_of(*argv: str) -> StreamCopyOptions:
    return read_arguments(StreamCopyOptions, SCRIPT.JOB.parser().parse_args(argv))


def test_what_both_kinds_of_kafka_have_is_copied() -> None:
    every = ["headers", "key", "timestamp", "topic", "value"]
    for argv, columns, left_out in (
        (GOOD, every, ()),
        ((*GOOD, "--target-topic", "x"), ["headers", "key", "timestamp", "value"], ()),
        ((*GOOD, "--keep-partitions"), ["headers", "key", "partition", "timestamp", "topic", "value"], ()),
        (GOOD_07, ["topic", "value"], ()),
        ((SOURCE, TARGET_07, *GOOD[2:]), ["key", "topic", "value"], ("headers", "key", "timestamp")),
        (
            (SOURCE_07, TARGET_07, *GOOD[2:], "--keep-partitions"),
            ["broker", "partition", "topic", "value"],
            (),
        ),
    ):
        options = options_of(*argv)
        assert sorted(options.columns) == columns
        assert options.left_out == left_out


def test_what_a_stream_is_given_follows_from_the_arguments() -> None:
    assert options_of(*GOOD).reading == {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "subscribe": "t",
        "startingOffsets": "earliest",
        "startingOffsetsByTimestampStrategy": "latest",
        "includeHeaders": "true",
    }
    limited = options_of(*GOOD, "--max-offsets", "9", "--starting", "latest", "--group", "g").reading
    assert (limited["maxOffsetsPerTrigger"], limited["startingOffsets"]) == ("9", "latest")
    assert limited["kafka.group.id"] == "g"
    assert limited["queryTrigger"] == "processingTime"
    assert "queryTrigger" not in options_of(*GOOD, "--max-offsets", "9", "--available-now").reading
    of_07 = options_of(*GOOD_07, "--max-bytes", "9", "--starting", "5").reading
    assert (of_07["maxBytesPerTrigger"], of_07["startingTimestamp"]) == ("9", "5")
    assert "includeHeaders" not in of_07


COUNT_07 = sum(count for count, _ in recorded())
BATCH = 100


class Copying:
    """Runs the job, again where the machine was too busy for Spark to start the process of its source."""

    def __init__(self, run_here: RunHere, checkpoint: Path) -> None:
        self.run_here, self.checkpoint = run_here, checkpoint

    def ended(self, *argv: str) -> tuple[int, str, str]:
        for _ in range(STARTS_MAX):
            code, out, err = self.run_here("stream_copy", *argv, "--checkpoint", str(self.checkpoint))
            if TOO_BUSY not in err:
                break
        return code, out, err

    def summary(self, *argv: str) -> dict[str, Any]:
        code, out, err = self.ended(*argv, "--json")
        assert code == 0, err
        summary: dict[str, Any] = json.loads(out)
        return summary


@pytest.fixture
def copying(run_here: RunHere, tmp_path: Path) -> Copying:
    return Copying(run_here, tmp_path / "checkpoint")


def option(side: str, broker: NoidaBroker) -> str:
    return f"--{side}-option=kafka.bootstrap.servers={broker.bootstrap_servers}"


def option_07(side: str, cluster: EmbeddedCluster) -> str:
    return f"--{side}-option=zookeeper.connect={cluster.zookeeper_connect}"


def filled(noida: NoidaBroker, count: int) -> str:
    """A topic of two partitions with so many records in turn."""
    topic = noida.create_topic(partitions=2)
    records = [
        Record(b"%d" % number, key=b"key", partition=number % 2, timestamp_ms=1_700_000_000_000 + number)
        for number in range(count)
    ]
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    return topic


def numbers(noida: NoidaBroker, topic: str) -> list[int]:
    partitions = [(topic, partition) for partition in range(2)]
    result = librdkafka.consume_partitions(noida.bootstrap_servers, partitions)
    return sorted(int(record.value or b"") for records in result.values() for record in records)


@READ_LIMITS
def test_a_topic_is_copied_with_all_that_its_messages_have_and_the_next_run_goes_on(
    copying: Copying, noida: NoidaBroker
) -> None:
    topic, target = filled(noida, 20), noida.create_topic(partitions=2)
    argv = [option("source", noida), option("target", noida), "--topic", topic, "--target-topic", target]
    argv += ["--keep-partitions", "--available-now", "--group", f"group-of-{topic}"]
    summary = copying.summary(*argv, "--max-offsets", "8")
    assert (summary["messages"], summary["batches"], summary["ended_by"]) == (20, 3, "available now")
    assert (summary["group_committed"], summary["maxOffsetsBehindLatest"]) == (True, 0)
    for partition in range(2):
        copied = librdkafka.consume(noida.bootstrap_servers, target, partition)
        assert [(record.value, record.key, record.timestamp_ms, record.partition) for record in copied] == [
            (b"%d" % n, b"key", 1_700_000_000_000 + n, partition) for n in range(partition, 20, 2)
        ]
        group = f"group-of-{topic}"
        assert librdkafka.committed_offset(noida.bootstrap_servers, group, topic, partition) == 10
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"20", partition=0)])
    assert copying.summary(*argv)["messages"] == 1
    assert numbers(noida, target) == [*range(21)]


def test_07_is_copied_into_parquet_and_a_group_in_zookeeper_follows(
    copying: Copying, corpus: EmbeddedCluster, spark: SparkSession, tmp_path: Path
) -> None:
    output = str(tmp_path / "out")
    argv = [option_07("source", corpus), "--topic", GZIP_TOPIC, "--output", output, "--group", "copy"]
    assert copying.summary(*argv, "--available-now")["messages"] == COUNT_07
    rows = spark.read.parquet(output)
    assert rows.select("broker", "partition", "offset", "index").distinct().count() == COUNT_07
    client = KazooClient(corpus.zookeeper_connect)
    client.start()
    try:
        for partition in partitions_of():
            name = f"{partition['broker']}-{partition['partition']}"
            end = sum(segment["size"] for segment in partition["segments"])
            assert int(client.get(f"/consumers/copy/offsets/{GZIP_TOPIC}/{name}")[0]) == end
    finally:
        client.stop()
        client.close()
    code, _, err = Copying(copying.run_here, tmp_path / "other").ended(*argv, "--available-now")
    assert code == 2
    assert "has batches up to 0, this checkpoint no batch, and" in err.splitlines()[-1]


@STREAM_SINKS
def test_what_a_folder_or_a_checkpoint_has_lost_is_not_gone_on_without(
    copying: Copying, noida: NoidaBroker, tmp_path: Path
) -> None:
    topic, output = filled(noida, 20), tmp_path / "out"
    argv = [option("source", noida), "--topic", topic, "--available-now"]
    to_files = [*argv, "--output", str(output)]
    assert copying.summary(*to_files)["messages"] == 20
    output.rename(tmp_path / "kept")
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"20", partition=0)])
    code, out, err = copying.ended(*to_files)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith(
        f"stream_copy: argument --output: {output} has no batch, and this checkpoint says that 0 is done: "
    )
    assert not output.exists()
    (tmp_path / "kept").rename(output)
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "offsets").rename(tmp_path / "offsets")
    target = noida.create_topic(partitions=2)
    for more in (to_files, [*argv, option("target", noida), "--target-topic", target]):
        code, out, err = copying.ended(*more)
        assert (code, out) == (1, "")
        assert err.splitlines()[-1].startswith(
            f"stream_copy: {checkpoint}: batches up to 0 are done, and its folder offsets has no batch: "
        )
    assert numbers(noida, target) == []
    (tmp_path / "offsets").rename(checkpoint / "offsets")
    assert copying.summary(*to_files)["messages"] == 1


@READ_LIMITS
def test_07_is_copied_to_modern_kafka_and_back(
    copying: Copying, corpus: EmbeddedCluster, noida: NoidaBroker, tmp_path: Path
) -> None:
    topic = noida.create_topic(partitions=2)
    there = [option_07("source", corpus), option("target", noida), "--topic", GZIP_TOPIC]
    assert copying.summary(*there, "--target-topic", topic, "--available-now")["messages"] == COUNT_07
    ends = [librdkafka.offsets(noida.bootstrap_servers, topic, partition)[1] for partition in range(2)]
    assert sum(ends) == COUNT_07
    back = [option("source", noida), option_07("target", corpus), "--topic", topic]
    back += ["--target-topic", f"back-{topic}", "--max-offsets", "5000", "--available-now"]
    code, out, err = Copying(copying.run_here, tmp_path / "back").ended(*back)
    assert code == 0, err
    assert "stream_copy: the target has no headers and no key and no timestamp of a message" in err
    assert out.splitlines()[0].split() == ["messages", f"{COUNT_07:,}"]


@READ_LIMITS
@pytest.mark.parametrize("who", ["the job", pytest.param("its JVM", marks=pytest.mark.nightly)])
def test_a_signal_ends_it_after_the_running_batch(
    who: str, copying: Copying, noida: NoidaBroker, spark: SparkSession
) -> None:
    topic, target = filled(noida, 3000), noida.create_topic(partitions=2)
    argv = [option("source", noida), option("target", noida), "--topic", topic, "--target-topic", target]
    argv += ["--keep-partitions", "--max-offsets", str(BATCH)]
    jvm: Any = spark.sparkContext._jvm
    pid = os.getpid() if who == "the job" else int(jvm.java.lang.ProcessHandle.current().pid())
    with when(
        lambda: librdkafka.offsets(noida.bootstrap_servers, target)[1] > 0,
        lambda: os.kill(pid, signal.SIGTERM),
    ):
        code, out, err = copying.ended(*argv, "--json")
    summary = json.loads(out)
    assert (code, summary["ended_by"]) == (143, "SIGTERM")
    assert err.splitlines()[-1] == (
        "stream_copy: interrupted; finished batches stay; run again with the same --checkpoint, which "
        "continues after them"
    )
    assert 0 < summary["messages"] < 3000
    assert summary["messages"] == len(numbers(noida, target)) == BATCH * summary["batches"]
    copying.summary(*argv[:-1], "1000", "--available-now")
    assert numbers(noida, target) == [*range(3000)]


@STREAM_SINKS
def test_messages_are_counted_while_a_batch_runs(
    noida: NoidaBroker, spark: SparkSession, tmp_path: Path
) -> None:
    topic = noida.create_topic(partitions=8)
    records = [Record(b"%d" % number, partition=number % 8) for number in range(8000)]
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    with NoidaBroker() as slow:
        target = slow.create_topic(partitions=1)
        options = StreamCopyOptions(
            source={"kafka.bootstrap.servers": noida.bootstrap_servers},
            selection={"subscribe": topic},
            checkpoint=str(tmp_path / "checkpoint"),
            target={"kafka.bootstrap.servers": slow.bootstrap_servers, "batchBytes": "1KiB"},
            target_topic=target,
            available_now=True,
        )
        halfway = Halfway(len(records), slow.resume)
        with when(lambda: librdkafka.offsets(slow.bootstrap_servers, target)[1] > 0, slow.pause):
            summary = started(lambda: StreamCopy(spark, options, halfway).run())
    assert (summary["messages"], summary["batches"]) == (len(records), 1)
    assert halfway.shown


@contextlib.contextmanager
def when(condition: Callable[[], bool], act: Callable[[], object]) -> Iterator[None]:
    """Acts as soon as a condition holds, once; the block is what the act ends or disturbs."""
    over = threading.Event()

    def run() -> None:
        deadline_s = time.monotonic() + WAIT_MAX_S
        while not over.wait(INTERVAL_S):
            if condition() or time.monotonic() > deadline_s:  # what never begins is to end, too
                act()
                return

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@STREAM_SINKS
def test_what_ends_the_query_is_one_line(copying: Copying, noida: NoidaBroker) -> None:
    topic = filled(noida, 20)
    argv = [option("source", noida), option("target", noida), "--topic", topic, "--available-now"]
    target = noida.create_topic(partitions=2)
    copying.summary(*argv, "--target-topic", target)
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"1", partition=0)] * 5)
    noida.delete_records(topic, 0, 15)
    code, out, err = copying.ended(*argv, "--target-topic", target)
    assert (code, out) == (1, "")
    *_, line = err.splitlines()
    assert line.startswith(f"stream_copy: batch 1: {topic} 0 at offset 10 on ")
    assert line.isprintable()


@STREAM_SINKS
@pytest.mark.parametrize(
    "is_there", [pytest.param(False, marks=pytest.mark.nightly), True], ids=["a new one", "an older one"]
)
def test_a_read_only_checkpoint_is_named_with_what_to_do(
    is_there: bool, run_here: RunHere, noida: NoidaBroker, disk: SmallDisk
) -> None:
    topic, target = filled(noida, 20), noida.create_topic(partitions=2)
    argv = [option("source", noida), option("target", noida), "--topic", topic, "--available-now"]
    argv += ["--target-topic", target]
    disk.remount("size=16m")
    copying = Copying(run_here, disk.folder / "checkpoint")
    if is_there:
        copying.summary(*argv)
        librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"20", partition=0)])
    disk.remount("ro")
    code, out, err = copying.ended(*argv)
    assert (code, out) == (1, "")
    *_, line = err.splitlines()
    assert line.startswith(f"stream_copy: {disk.folder}/checkpoint")
    assert line.endswith("Read-only file system; let this user write there, and run again")
    disk.remount("rw")
    copying.summary(*argv)
    assert numbers(noida, target) == [*range(21 if is_there else 20)]


@READ_LIMITS
@pytest.mark.nightly
def test_spark_submit_runs_it_with_only_the_zip_shipped_and_ends_it_after_the_running_batch(
    package: Path, noida: NoidaBroker, tmp_path: Path
) -> None:
    topic, target = filled(noida, 3000), noida.create_topic(partitions=2)
    argv = [option("source", noida), option("target", noida), "--topic", topic, "--target-topic", target]
    argv += ["--checkpoint", str(tmp_path / "checkpoint"), "--keep-partitions", "--json"]
    command = submit_command(package, ROOT / "jobs" / "stream_copy.py", *argv, "--max-offsets", str(BATCH))
    for _ in range(STARTS_MAX):
        with (
            subprocess.Popen(
                command, env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as job,
            when(
                lambda: librdkafka.offsets(noida.bootstrap_servers, target)[1] > 0,
                lambda: os.kill(job.pid, signal.SIGTERM),
            ),
        ):
            out, err = job.communicate()
        if TOO_BUSY not in err:
            break
    assert job.returncode == 143, err
    summary = json.loads(out)
    assert summary["ended_by"] == "SIGTERM"
    assert 0 < summary["messages"] < 3000
    assert summary["messages"] == len(numbers(noida, target)) == BATCH * summary["batches"]
