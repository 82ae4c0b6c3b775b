"""The state of ingest: files that are damaged, mixed, older or of another run are errors."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.errors import KafkaWireError
from spark_kafkawire.jobs.ingest.output import Output, OutputOptions
from spark_kafkawire.jobs.ingest.plan import Plan, next_plan
from spark_kafkawire.jobs.ingest.run import Ingest
from spark_kafkawire.jobs.ingest.state import RECORDS_CHECKED_MAX, IngestState, Remembered
from spark_kafkawire.jobs.state.file_system import FileError
from spark_kafkawire.jobs.state.local_files import LocalFiles
from spark_kafkawire.jobs.state.sealed import StateError
from spark_kafkawire.model import OffsetRange, TopicPartition
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

from .ingesting import Crash, LocalIngest, LocalOutput, crash, options_of

PARTITION: Final = TopicPartition("t", 0)
FILES: Final = LocalFiles()


def plans(count: int) -> list[Plan]:
    """Plans of a partition, ten offsets each."""
    found: list[Plan] = []
    for number in range(count):
        last = found[-1] if found else None
        found.append(
            next_plan(
                last, [OffsetRange(PARTITION, 10 * number, 10 * number + 10)], {PARTITION: 10 * number}, None
            )
        )
    return found


@pytest.fixture
def state(tmp_path: Path) -> IngestState:
    return IngestState(FILES, str(tmp_path))


def record(state: IngestState, plan: Plan, *, done: bool = True) -> None:
    state.record(plan)
    if done:
        state.finish(plan)


def test_an_older_record_that_is_gone_is_named_unless_all_before_it_are(
    state: IngestState, tmp_path: Path
) -> None:
    for plan in plans(4):
        record(state, plan)
    kept = (tmp_path / "1.done.json").rename(tmp_path / "kept")
    with pytest.raises(
        StateError, match=r"/1\.done\.json is missing, and batches 0 and 2 are recorded: put the"
    ):
        state.newest()
    (tmp_path / "0.done.json").unlink()
    assert state.newest() is not None
    kept.rename(tmp_path / "1.done.json")
    assert state.newest() is not None


def test_a_run_reads_no_more_records_the_more_runs_were_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LocalFiles()
    state = IngestState(files, str(tmp_path))
    all_plans = plans(RECORDS_CHECKED_MAX + 20)
    for plan in all_plans:
        record(state, plan)
    read: list[str] = []
    read_file = files.read

    def noted(path: str) -> str:
        read.append(path)
        return read_file(path)

    monkeypatch.setattr(files, "read", noted)
    assert state.newest() == Remembered(all_plans[-1], True)
    assert len([path for path in read if path.endswith(".json")]) == RECORDS_CHECKED_MAX + 1


def test_files_that_changed_places_are_noticed(state: IngestState, tmp_path: Path) -> None:
    for plan in plans(2):
        record(state, plan)
    shutil.copy(tmp_path / "0.done.json", tmp_path / "1.done.json")
    with pytest.raises(
        StateError, match=r"/1\.done\.json is that of batch 0: put back the file that was there"
    ):
        state.newest()


def test_a_batch_that_was_never_finished_before_a_later_one_is_noticed(state: IngestState) -> None:
    first, second = plans(2)
    record(state, first, done=False)
    record(state, second)
    with pytest.raises(
        StateError, match=r"/0\.planned\.json was never finished, and batch 1 is recorded after"
    ):
        state.newest()


class Runs:
    """Runs without Spark on a topic that grows by a message before each of them."""

    def __init__(self, noida: NoidaBroker, tmp_path: Path, name: str) -> None:
        self._noida = noida
        self._topic = noida.create_topic()
        self.count = 0
        self.output = tmp_path / f"{name}-out"
        self.state = tmp_path / f"{name}-state"

    def __call__(self, *, starting: dict[str, str] | None = None, grows: bool = True) -> None:
        if grows:
            records = [Record(b"%d" % self.count)]
            librdkafka.produce(self._noida.bootstrap_servers, self._topic, records)
            self.count += 1
        options = options_of(
            self._noida, self._topic, OutputOptions(str(self.output)), checkpoint=str(self.state)
        )
        LocalIngest(replace(options, starting=starting)).run()

    @property
    def offsets(self) -> list[int]:
        files = self.output.glob("batch=*/part-0")
        return sorted(int(line) for file in files for line in file.read_text().split())


@pytest.fixture
def runs(noida: NoidaBroker, tmp_path: Path) -> Runs:
    return Runs(noida, tmp_path, "one")


FROM_THE_START: Final[dict[str, str]] = {}


def test_an_older_copy_of_the_state_is_noticed(runs: Runs, tmp_path: Path) -> None:
    runs(starting=FROM_THE_START)
    shutil.copytree(runs.state, tmp_path / "copy")
    runs(starting=FROM_THE_START)
    shutil.rmtree(runs.state)
    (tmp_path / "copy").rename(runs.state)
    with pytest.raises(FileError, match=r"/batch=1 is of a run that is not recorded, or of one with another"):
        runs(starting=FROM_THE_START)
    assert runs.offsets == [0, 1]


@pytest.mark.parametrize(
    ("gone", "said"),
    [
        ("1.done.json", "/batch=1 is of a run that is not recorded"),
        ("*", "/batch=1 is of a run that is not recorded"),
        ("*.json", r"/0\.done\.json or a later one is missing, and the folder records that it existed; if"),
    ],
)
def test_a_state_of_which_the_newest_file_or_all_are_gone_is_noticed(
    runs: Runs, gone: str, said: str
) -> None:
    runs(starting=FROM_THE_START)
    runs(starting=FROM_THE_START)
    for file in runs.state.glob(gone):
        file.unlink()
    with pytest.raises(KafkaWireError, match=said):
        runs(starting=FROM_THE_START)
    assert runs.offsets == [0, 1]


def test_records_that_are_gone_are_noticed_also_where_the_output_is_gone_with_them(runs: Runs) -> None:
    runs(starting=FROM_THE_START)
    shutil.rmtree(runs.output)
    (runs.state / "0.done.json").unlink()
    with pytest.raises(StateError, match=r"/0\.done\.json or a later one is missing"):
        runs(starting=None)
    assert runs.offsets == []


@pytest.mark.parametrize("gone", ["*.json", "*"])
def test_a_first_run_that_read_nothing_is_remembered_by_the_output_too(runs: Runs, gone: str) -> None:
    runs(starting=None)
    for file in runs.state.glob(gone):
        file.unlink()
    # It would begin at the new end, and pass over what came since.
    with pytest.raises(KafkaWireError, match=r"/batch=0 is of a run that is not recorded|0\.done\.json or a"):
        runs(starting=None)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_state_of_another_run_is_noticed(
    runs: Runs, noida: NoidaBroker, tmp_path: Path, count: int
) -> None:
    other = Runs(noida, tmp_path, "other")
    runs(starting=FROM_THE_START)
    runs(starting=FROM_THE_START)
    for _ in range(count):
        other(starting=FROM_THE_START)
    shutil.rmtree(runs.state)
    shutil.copytree(other.state, runs.state)
    with pytest.raises(FileError, match=r"/batch=1 is of a run that is not recorded"):
        runs(starting=FROM_THE_START)
    assert runs.offsets == [0, 1]


def test_the_oldest_batches_may_be_removed(runs: Runs) -> None:
    for _ in range(3):
        runs(starting=FROM_THE_START)
    for batch in (0, 1):
        shutil.rmtree(runs.output / f"batch={batch}")
        runs(starting=FROM_THE_START)
    assert runs.offsets == [2, 3, 4]


@pytest.mark.parametrize(
    ("gone", "batch", "left"),
    [(".", 2, []), ("batch=*", 2, []), ("batch=2", 2, [0, 1]), ("batch=1", 1, [0, 2])],
    ids=["the output", "all batches", "the newest one", "one in the middle"],
)
def test_an_output_whose_batches_are_gone_is_not_gone_on_with(
    runs: Runs, gone: str, batch: int, left: list[int]
) -> None:
    for _ in range(3):
        runs(starting=FROM_THE_START)
    for folder in [*runs.output.glob(gone)] if gone != "." else [runs.output]:
        shutil.rmtree(folder)
    with pytest.raises(FileError) as refused:
        runs(starting=FROM_THE_START)
    missing = runs.output / f"batch={batch}"
    assert str(refused.value).startswith(f"{missing} is missing, and batches up to 2 were written here: put")
    assert runs.offsets == left
    # What the error advises where the rows were removed on purpose.
    missing.mkdir(parents=True)
    shutil.copy(runs.state / f"{batch}.done.json", missing / "_plan")
    runs(starting=FROM_THE_START)
    assert runs.offsets == [*left, 3, 4]


def test_another_output_with_the_same_checkpoint_is_not_begun(runs: Runs, tmp_path: Path) -> None:
    runs(starting=FROM_THE_START)
    runs.output = tmp_path / "other-out"
    with pytest.raises(FileError, match=r"/other-out/batch=0 is missing, and batches up to 0 were written"):
        runs(starting=FROM_THE_START)


def test_batches_that_are_gone_are_noticed_before_an_unfinished_run_is_finished(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(starting=FROM_THE_START)
    with monkeypatch.context() as patched:
        patched.setattr(LocalOutput, "write", crash)
        with pytest.raises(Crash):
            runs(starting=FROM_THE_START)
    shutil.rmtree(runs.output)
    with pytest.raises(FileError, match=r"/batch=0 is missing, and batches up to 0 were written here"):
        runs(starting=FROM_THE_START)


def test_of_two_runs_that_no_lock_keeps_apart_only_one_records_a_batch(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system that two machines share, and whose locks they do not."""
    monkeypatch.setattr("fcntl.flock", lambda *_: None)
    plan_next = Ingest._next

    def overtaken(slow: Ingest, last: Plan | None) -> Plan | None:
        plan = plan_next(slow, last)
        monkeypatch.setattr(Ingest, "_next", plan_next)
        runs(starting=FROM_THE_START, grows=False)
        return plan

    monkeypatch.setattr(Ingest, "_next", overtaken)
    with pytest.raises(FileError, match=r"/batch=0 is another run's, or of one with another --checkpoint"):
        runs(starting=FROM_THE_START)
    runs(starting=FROM_THE_START)
    assert runs.offsets == [0, 1]


def test_an_attempt_that_is_removed_while_it_is_shown_is_shown_whole_or_not_at_all(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run has begun to remove it when this one has looked for it."""
    show = LocalFiles.sync

    def removed(files: LocalFiles, folder: str) -> None:
        monkeypatch.setattr(LocalFiles, "sync", show)
        with monkeypatch.context() as patched:
            # A removal takes its time, and nothing of it is done yet.
            patched.setattr("shutil.rmtree", lambda _: None)
            files.remove(str(Path(folder).parent))

    monkeypatch.setattr(LocalFiles, "sync", removed)
    with pytest.raises(FileError, match=r"unfinished/0-.*: cannot rename to .*/batch=0: No such file"):
        runs(starting=FROM_THE_START)
    runs(starting=FROM_THE_START)
    assert runs.offsets == [0, 1]


def test_a_folder_on_another_file_system_is_not_copied_to(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java's renaming copies there, file by file, and a kill leaves half of a batch that counts as whole."""

    rename = os.rename

    def renamed(source: str, target: str) -> None:
        if "batch=" in target:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), source, None, target)
        rename(source, target)

    with monkeypatch.context() as patched:
        patched.setattr("os.rename", renamed)
        with pytest.raises(FileError, match=r"batch=0: Invalid cross-device link; it is on another file"):
            Output(FILES, OutputOptions(str(runs.output))).write_nothing(plans(1)[0])
    assert not (runs.output / "batch=0").exists()
