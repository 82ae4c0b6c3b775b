"""Jobs on a disk that fails or is torn away, that is full, or read-only: nothing is lost or doubled."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.clients.writing.modern.batches import ProducerId
from spark_kafkawire.errors import OptionError
from spark_kafkawire.jobs.ending import explain, failures
from spark_kafkawire.jobs.files import FileError, LocalFiles
from spark_kafkawire.jobs.ingest.output import OutputOptions
from spark_kafkawire.jobs.ingest.run import Ingest
from spark_kafkawire.jobs.migration.state import (
    Mark,
    PartitionProgress,
    State,
    StateDirectory,
)
from spark_kafkawire.jobs.publish.state import (
    Done,
    Publication,
    PublishState,
    TopicRows,
)
from spark_kafkawire.jobs.state import sole_run
from spark_kafkawire.model import TopicPartition
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.short_and_long import short_and_long

from .disks import FAULTS, FailingDisk, SmallDisk
from .ingest.ingesting import QUIET, LocalIngest, offsets_of, options_of, values_of

PARTITION: Final = TopicPartition("t", 0)
#: More calls than any of these runs has.
CALLS_MAX: Final = 200


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> FailingDisk:
    return FailingDisk(monkeypatch)


def at_each_call(
    failing: FailingDisk, fault: str, run: Callable[[], None], again: Callable[[], None], step: int = 1
) -> int:
    """``run`` with a fault at its first call, its second, and so on, and ``again`` after each; how many.

    With a ``step`` at every second call or so, other ones for each fault.
    """
    said = []
    for number in range(1 + FAULTS.index(fault) % step, CALLS_MAX, step):
        with failing.failing(fault, number):
            try:
                run()
            except (FileError, OptionError) as error:
                said.append(str(error))
        has_failed = failing.has_failed
        again()
        if not has_failed:
            assert all(line.isprintable() and ".unfinished: cannot" not in line for line in said)
            return number - 1
    raise AssertionError("the runs never end")


@short_and_long("step", short=5, long=1)
@pytest.mark.parametrize("fault", FAULTS)
def test_ingest_reads_each_message_once(
    fault: str, step: int, failing: FailingDisk, noida: NoidaBroker, tmp_path: Path
) -> None:
    topic = noida.create_topic()
    group = f"g-{topic}"
    numbers = itertools.count()
    produced: list[int] = []

    def run() -> None:
        LocalIngest(options_of(noida, topic, OutputOptions(f"{tmp_path}/out"), group=group)).run()

    def once_more() -> None:
        produced.append(next(numbers))
        librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"%d" % produced[-1])])

    def again() -> None:
        run()
        assert offsets_of(OutputOptions(f"{tmp_path}/out")) == produced
        once_more()

    once_more()
    assert at_each_call(failing, fault, run, again, step) > 15
    run()
    assert librdkafka.committed_offset(noida.bootstrap_servers, group, topic) == len(produced)


ROWS: Final = Counter({"a": 2, "b": 1, "c": 1})


@pytest.mark.parametrize("fault", FAULTS)
def test_publish_sends_each_row_once(fault: str, failing: FailingDisk, tmp_path: Path) -> None:
    numbers = itertools.count()
    topic: list[str] = []
    folder = ""

    def run() -> None:
        """Do the steps of ``ResumablePublish``, with a list for a topic."""
        files = LocalFiles()
        with sole_run(files, [folder]):
            state = PublishState(files, folder)
            state.begin(Publication("k:9092", {"t": TopicRows(ROWS.total(), "1")}))
            if state.done() is not None:
                return
            is_first = not state.run_count
            state.begin_run({PARTITION: len(topic)})
            there = Counter() if is_first else Counter(topic[state.starts()[PARTITION] :])
            topic.extend((ROWS - there).elements())
            state.finish(Done(ROWS.total(), 0))

    def new() -> None:
        nonlocal folder
        folder = f"{tmp_path}/{next(numbers)}"
        topic[:] = ["a", "of another process"]

    def again() -> None:
        for _ in range(2):
            run()
            assert Counter(topic[2:]) == ROWS
        new()

    new()
    assert at_each_call(failing, fault, run, again) > 15


PROGRESS: Final = PartitionProgress(
    TopicPartition("t", 2, 1), TopicPartition("new", 5), "5f1c", ProducerId(4001, 3), Mark(0, 5), Mark(0, 5)
)


@pytest.mark.parametrize("fault", FAULTS)
def test_migrate_goes_on_at_the_state_before_or_at_the_new_one(
    fault: str, failing: FailingDisk, tmp_path: Path
) -> None:
    saved = 0

    def count_of(state: State | None) -> int:
        return 0 if state is None else state.partitions[PROGRESS.source].copied.message_count

    def run(saves: int = 2) -> None:
        nonlocal saved
        with StateDirectory(tmp_path / "state") as directory:
            count = count_of(directory.load())
            assert count >= saved
            for number in range(count + 1, count + 1 + saves):
                partition = replace(PROGRESS, copied=Mark(number, 5 + number, number))
                directory.save(State(False, {partition.source: partition}))
                saved = number

    assert at_each_call(failing, fault, run, lambda: run(0)) > 8
    with StateDirectory(tmp_path / "state") as directory:
        assert count_of(directory.load()) >= saved > 0


COUNT: Final = 2000
#: KiB of a disk, from one on which nothing has a place to one that holds the output nearly; a page is 4.
SIZES: Final = (4, 20, 52, 84)


@short_and_long("file_format", short="parquet", long="json")
def test_what_a_full_disk_has_cut_is_never_shown(
    spark: SparkSession, noida: NoidaBroker, disk: SmallDisk, file_format: str
) -> None:
    topic = noida.create_topic(2)
    records = [Record(b'{"n": %d}' % number, partition=number % 2) for number in range(COUNT)]
    librdkafka.produce(noida.bootstrap_servers, topic, records)
    output = OutputOptions(f"{disk.folder}/out", format=file_format, decode="string")
    options = options_of(noida, topic, output, group=f"g-{topic}")
    lines = []
    for size in SIZES:
        disk.remount(f"size={size}k")
        try:
            Ingest(spark, options, QUIET).run()
            break
        except failures() as error:
            lines.append(explain(error)[0])
        assert not [*disk.folder.glob("out/batch=*")]
        assert librdkafka.committed_offset(noida.bootstrap_servers, f"g-{topic}", topic) <= 0
    assert len(lines) >= 2
    assert [line for line in lines if "No space left on device" not in line or not line.isprintable()] == []
    # What is full, and what to do.
    assert [line for line in lines if not line.startswith(f"{disk.folder}/") or "run again" not in line] == []
    disk.remount("size=16m")
    Ingest(spark, options, QUIET).run()
    rows = spark.read.format(file_format).load(output.path).selectExpr("get_json_object(value, '$.n') AS n")
    assert sorted(int(row.n) for row in rows.collect()) == [*range(COUNT)]
    assert librdkafka.committed_offset(noida.bootstrap_servers, f"g-{topic}", topic) == COUNT // 2


def test_a_read_only_output_is_named_and_nothing_is_committed(
    spark: SparkSession, noida: NoidaBroker, disk: SmallDisk
) -> None:
    topic = noida.create_topic()
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b'{"n": 0}')])
    disk.remount("size=16m")
    output = OutputOptions(f"{disk.folder}/out")
    options = options_of(noida, topic, output, group=f"g-{topic}")
    Ingest(spark, options, QUIET).run()
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b'{"n": 1}')])
    disk.remount("ro")
    with pytest.raises(failures()) as refused:
        Ingest(spark, options, QUIET).run()
    assert explain(refused.value)[0] == (
        f"{disk.folder}/out/_kafkawire/lock: cannot write: Read-only file system; let this user write there, "
        "and run again"
    )
    assert librdkafka.committed_offset(noida.bootstrap_servers, f"g-{topic}", topic) == 1
    disk.remount("rw")
    Ingest(spark, options, QUIET).run()
    assert values_of(spark, output) == [0, 1]
