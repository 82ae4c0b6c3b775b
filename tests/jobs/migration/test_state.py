"""What a migration remembers: read back as written, one writer at a time, never half."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_kafkawire.clients.batches import ProducerId
from spark_kafkawire.errors import CorruptDataError, OptionError
from spark_kafkawire.jobs.migration.state import LogProgress, Mark, State, StateDirectory, load_state
from spark_kafkawire.model import TopicPartition

LOG = LogProgress(
    source=TopicPartition("t", 2, 1),
    target=TopicPartition("new", 5),
    topic_id="5f1c",
    producer=ProducerId(4001, 3),
    copied=Mark(900, 17, 12),
    verified=Mark(0, 5),
    is_open=True,
)
STATE = State(source_headers=True, logs={LOG.source: LOG})


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
        pytest.raises(OptionError, match="another run uses it"),
        StateDirectory(tmp_path),
    ):
        pass
    with StateDirectory(tmp_path):
        pass


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "another"}', '{"format": 1, "logs": {}}', "\0"])
def test_a_file_that_is_something_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "migration.json").write_text(text)
    with pytest.raises(CorruptDataError, match=r"migration\.json is not the state of a migration"):
        load_state(tmp_path)


def test_a_place_that_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="argument --state: "), StateDirectory(tmp_path / "file"):
        pass


@pytest.mark.parametrize("verified", [Mark(901, 17), Mark(900, 18)])
def test_a_state_whose_marks_run_backwards_is_refused(tmp_path: Path, verified: Mark) -> None:
    with StateDirectory(tmp_path) as directory:
        directory.save(STATE)
    file = tmp_path / "migration.json"
    content = json.loads(file.read_text())
    content["logs"][0]["verified"] = [verified.source_offset, verified.target_offset, 0]
    file.write_text(json.dumps(content))
    with pytest.raises(CorruptDataError, match="or damaged"):
        load_state(tmp_path)
