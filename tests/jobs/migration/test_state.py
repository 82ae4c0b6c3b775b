"""The state of a migration: read back as written, one writer at a time, never half."""

from __future__ import annotations

import fcntl
from dataclasses import replace
from pathlib import Path

import pytest

from spark_kafkawire.clients.writing.modern.batches import ProducerId
from spark_kafkawire.jobs.migration.state import Mark, PartitionProgress, State, StateDirectory, load_state
from spark_kafkawire.jobs.state.file_system import FileError
from spark_kafkawire.jobs.state.sealed import StateError, seal, unseal
from spark_kafkawire.model import TopicPartition

PARTITION = PartitionProgress(
    source=TopicPartition("t", 2, 1),
    target=TopicPartition("new", 5),
    topic_id="5f1c",
    producer=ProducerId(4001, 3),
    copied=Mark(900, 17, 12),
    verified=Mark(0, 5),
    is_open=True,
)
STATE = State(source_headers=True, partitions={PARTITION.source: PARTITION})


def test_a_state_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    with StateDirectory(tmp_path / "new" / "folder") as directory:
        assert directory.load() is None
        directory.save(STATE)
        assert directory.load() == STATE
        directory.save(State(source_headers=False))
    assert load_state(tmp_path / "new" / "folder") == State(source_headers=False)


def test_a_second_run_is_kept_out_until_the_first_one_ends(tmp_path: Path) -> None:
    with (
        StateDirectory(tmp_path),
        pytest.raises(FileError, match="another run is active here"),
        StateDirectory(tmp_path),
    ):
        pass
    with StateDirectory(tmp_path):
        pass


def state_file(folder: Path) -> Path:
    """The newest state, alone, as it is between two runs."""
    [file] = folder.glob("migration-*.json")
    return file


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("\0", "it is not JSON, or it is cut"),
        ("[" * 100_000, "it is not JSON, or it is cut"),
        ("[]", "it is no JSON object"),
        ("{}", "its format is None, and not spark-kafkawire migration 2"),
        ('{"format": "spark-kafkawire migration 3"}', "its format is spark-kafkawire migration 3, and not"),
        ('{"format": "spark-kafkawire migration 2", "logs": []}', "its checksum does not match its text"),
        ('{"format": 1, "format": 1}', "the key format appears twice"),
        ('{"format": NaN}', "NaN is no number"),
    ],
)
def test_a_file_that_is_something_else_is_refused(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "migration-1.json").write_text(text)
    with pytest.raises(StateError, match=rf"/migration-1\.json is not the state of a migration, .*: {why}"):
        load_state(tmp_path)


def test_a_state_that_is_gone_is_not_taken_for_none(tmp_path: Path) -> None:
    with StateDirectory(tmp_path) as directory:
        directory.save(STATE)
    file = state_file(tmp_path)
    text = file.read_text()
    file.unlink()
    with (
        StateDirectory(tmp_path) as directory,
        pytest.raises(StateError, match=r"migration-1\.json or a later one is missing; put the file back"),
    ):
        directory.load()
    file.write_text(text)
    assert load_state(tmp_path) == STATE


def test_an_older_state_beside_a_newer_one_does_not_count(tmp_path: Path) -> None:
    older = replace(STATE, partitions={PARTITION.source: replace(PARTITION, copied=Mark(450, 8, 5))})
    with StateDirectory(tmp_path) as directory:
        directory.save(older)
        text = state_file(tmp_path).read_text()
        directory.save(STATE)
        (tmp_path / "migration-1.json").write_text(text)
        assert directory.load() == STATE


def test_of_two_runs_that_no_lock_keeps_apart_one_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a file system that two machines share, and whose locks they do not."""
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    with StateDirectory(tmp_path) as first, StateDirectory(tmp_path) as second:
        assert (first.load(), second.load()) == (None, None)
        first.save(STATE)
        other = replace(
            STATE, partitions={PARTITION.source: replace(PARTITION, producer=ProducerId(4002, 0))}
        )
        with pytest.raises(FileError, match=r"migration-1\.json already exists: does another run write here"):
            second.save(other)
        assert load_state(tmp_path) == STATE


def test_a_place_that_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(FileError, match="cannot make the folder, because a file is in its place"),
        StateDirectory(tmp_path / "file"),
    ):
        pass


@pytest.mark.parametrize("verified", [Mark(901, 17), Mark(900, 18)])
def test_a_state_whose_marks_run_backwards_is_refused(tmp_path: Path, verified: Mark) -> None:
    with StateDirectory(tmp_path) as directory:
        directory.save(STATE)
    file = state_file(tmp_path)
    content = unseal(file.read_text(), "migration 2")
    content["logs"][0]["verified"] = [verified.source_offset, verified.target_offset, 0]
    file.write_text(seal("migration 2", content))
    with pytest.raises(StateError, match="or damaged"):
        load_state(tmp_path)
