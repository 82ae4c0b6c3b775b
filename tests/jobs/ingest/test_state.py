"""What ingest remembers: files that are damaged, mixed, older or of another run are told."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.jobs.ingest.output import Output, OutputOptions
from spark_kafkawire.jobs.ingest.plan import Plan, next_plan
from spark_kafkawire.jobs.ingest.run import Ingest
from spark_kafkawire.jobs.ingest.state import IngestState, Remembered
from spark_kafkawire.jobs.state.file_system import FileError
from spark_kafkawire.jobs.state.local_files import LocalFiles
from spark_kafkawire.jobs.state.sealed import StateError
from spark_kafkawire.model import OffsetRange, TopicPartition
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

from ..damage import assert_damage_is_noticed
from .ingesting import options_of
from .local_ingest import LocalIngest

LOG: Final = TopicPartition("t", 0)
FILES: Final = LocalFiles()


def plans(count: int) -> list[Plan]:
    """Plans of a log, ten offsets each."""
    found: list[Plan] = []
    for number in range(count):
        last = found[-1] if found else None
        found.append(
            next_plan(last, [OffsetRange(LOG, 10 * number, 10 * number + 10)], {LOG: 10 * number}, None)
        )
    return found


@pytest.fixture
def state(tmp_path: Path) -> IngestState:
    return IngestState(FILES, str(tmp_path))


def record(state: IngestState, plan: Plan, *, done: bool = True) -> None:
    state.record(plan)
    if done:
        state.finish(plan)


def test_a_plan_that_was_cut_or_in_which_a_bit_has_changed_is_named(
    state: IngestState, tmp_path: Path
) -> None:
    first, second = plans(2)
    record(state, first)
    record(state, second)
    assert state.newest() == Remembered(second, True)
    assert_damage_is_noticed(tmp_path / "1.done.json", state.newest)


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


@pytest.mark.parametrize("gone", ["1.done.json", "*.json"])
def test_a_state_of_which_the_newest_file_or_all_are_gone_is_noticed(runs: Runs, gone: str) -> None:
    runs(starting=FROM_THE_START)
    runs(starting=FROM_THE_START)
    for file in runs.state.glob(gone):
        file.unlink()
    with pytest.raises(FileError, match=r"/batch=1 is of a run that is not recorded"):
        runs(starting=FROM_THE_START)
    assert runs.offsets == [0, 1]


def test_a_first_run_that_read_nothing_is_remembered_by_the_output_too(runs: Runs) -> None:
    runs(starting=None)
    for file in runs.state.glob("*.json"):
        file.unlink()
    # It would begin at the new end, and pass over what came since.
    with pytest.raises(FileError, match=r"/batch=0 is of a run that is not recorded"):
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


def test_batches_that_somebody_has_taken_away_are_not_missed(runs: Runs) -> None:
    runs(starting=FROM_THE_START)
    runs(starting=FROM_THE_START)
    shutil.rmtree(runs.output / "batch=1")
    runs(starting=FROM_THE_START)
    assert runs.offsets == [0, 2]
    shutil.rmtree(runs.output)
    runs(starting=FROM_THE_START)
    assert runs.offsets == [3]


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
        with pytest.raises(FileError, match=r"batch=0: Invalid cross-device link; it is another file system"):
            Output(FILES, OutputOptions(str(runs.output))).write_nothing(plans(1)[0])
    assert not (runs.output / "batch=0").exists()
