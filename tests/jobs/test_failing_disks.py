"""Jobs' memories on a disk that fails, or is torn away, at each single call: nothing is lost or doubled."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.clients.writing.modern.batches import ProducerId
from spark_kafkawire.errors import OptionError
from spark_kafkawire.jobs.ingest.output import OutputOptions
from spark_kafkawire.jobs.migration.state import Mark, PartitionProgress, State, StateDirectory
from spark_kafkawire.jobs.publish.state import Done, Publication, PublishState, TopicRows
from spark_kafkawire.jobs.state.file_system import FileError
from spark_kafkawire.jobs.state.local_files import LocalFiles
from spark_kafkawire.jobs.state.sole_run import sole_run
from spark_kafkawire.model import TopicPartition
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

from .failing_disk import FAULTS, FailingDisk
from .ingest.ingesting import options_of
from .ingest.local_ingest import LocalIngest

PARTITION: Final = TopicPartition("t", 0)
#: More calls than any of these runs has.
CALLS_MAX: Final = 200


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FailingDisk:
    return FailingDisk(monkeypatch)


def at_each_call(disk: FailingDisk, fault: str, run: Callable[[], None], again: Callable[[], None]) -> int:
    """``run`` with a fault at its first call, its second, and so on, and ``again`` after each; how many."""
    said = []
    for number in range(1, CALLS_MAX):
        with disk.failing(fault, number):
            try:
                run()
            except (FileError, OptionError) as error:
                said.append(str(error))
        has_failed = disk.has_failed
        again()
        if not has_failed:
            assert all(line.isprintable() and ".unfinished: cannot" not in line for line in said)
            return number - 1
    raise AssertionError("the runs never end")


@pytest.mark.parametrize("fault", FAULTS)
def test_ingest_reads_each_message_once(
    fault: str, disk: FailingDisk, noida: NoidaBroker, tmp_path: Path
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
        found = [
            int(line) for file in tmp_path.glob("out/batch=*/part-0") for line in file.read_text().split()
        ]
        assert sorted(found) == produced
        once_more()

    once_more()
    assert at_each_call(disk, fault, run, again) > 15
    run()
    assert librdkafka.committed_offset(noida.bootstrap_servers, group, topic) == len(produced)


ROWS: Final = Counter({"a": 2, "b": 1, "c": 1})


@pytest.mark.parametrize("fault", FAULTS)
def test_publish_sends_each_row_once(fault: str, disk: FailingDisk, tmp_path: Path) -> None:
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
        run()
        assert Counter(topic[2:]) == ROWS
        run()
        assert Counter(topic[2:]) == ROWS
        new()

    new()
    assert at_each_call(disk, fault, run, again) > 15


STATE: Final = PartitionProgress(
    TopicPartition("t", 2, 1), TopicPartition("new", 5), "5f1c", ProducerId(4001, 3), Mark(0, 5), Mark(0, 5)
)


@pytest.mark.parametrize("fault", FAULTS)
def test_migrate_goes_on_at_the_state_before_or_at_the_new_one(
    fault: str, disk: FailingDisk, tmp_path: Path
) -> None:
    saved = 0

    def count_of(state: State | None) -> int:
        return 0 if state is None else state.partitions[STATE.source].copied.message_count

    def run(saves: int = 2) -> None:
        nonlocal saved
        with StateDirectory(tmp_path / "state") as directory:
            count = count_of(directory.load())
            assert count >= saved
            for number in range(count + 1, count + 1 + saves):
                partition = replace(STATE, copied=Mark(number, 5 + number, number))
                directory.save(State(False, {partition.source: partition}))
                saved = number

    assert at_each_call(disk, fault, run, lambda: run(0)) > 8
    with StateDirectory(tmp_path / "state") as directory:
        assert count_of(directory.load()) >= saved > 0
