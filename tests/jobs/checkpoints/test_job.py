"""kafkawire checkpoints as a user runs it. tests/interop lets Spark itself go on with what it has written."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any, Final

import pytest

from spark_kafkawire.planner.stream_offsets import ID_MARK, PART_MARK, PIN_MARK

from ..submitting import command

SCRIPT: Final = command("checkpoints")
THEIRS: Final = '{"t":{"0":5,"1":12}}'
PINNED: Final = json.dumps({"t": {"0": 5, "1": 12}, PIN_MARK: {}})
IN_PART: Final = json.dumps({"t": {"0": 5, "1": 12}, PART_MARK: {}})
OURS: Final = json.dumps({"t": {"0": 5, "1": 12}})
START: Final = '{"t":{"0":3,"1":4}}'


class Checkpoint:
    """A checkpoint, written as Spark writes one."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        self.write("metadata", '{"id":"9725618b"}')

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)
        (self.folder / name).with_name(f".{Path(name).name}.crc").write_bytes(b"crc\0")

    def batch(self, number: int, *ends: str, done: bool) -> None:
        self.write(f"offsets/{number}", "\n".join(["v1", '{"batchWatermarkMs":0}', *ends]))
        if done:
            self.write(f"commits/{number}", 'v1\n{"nextBatchWatermarkMs":0}')

    def start(self, text: str = START, source: int = 0) -> None:
        self.write(f"sources/{source}/0", f"\0v1\n{text}")

    def files(self) -> dict[str, bytes]:
        paths = (path for path in self.folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in paths}

    def run(self, *argv: str) -> tuple[int, str, str]:
        """Run the job on it: exit code, stdout, stderr."""
        code = SCRIPT.JOB.main([str(self.folder), "--quiet", *argv])
        return code, *self._capsys.readouterr()

    def reported(self, *argv: str) -> Any:
        """The summary of a run."""
        code, out, err = self.run("--json", *argv)
        assert (code, err) == (0, "")
        return json.loads(out)


@pytest.fixture
def checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Checkpoint:
    return Checkpoint(tmp_path / "checkpoint", capsys)


def test_it_shows_topics_partitions_offsets_and_the_last_batch(checkpoint: Checkpoint) -> None:
    checkpoint.batch(9, THEIRS, "-", done=True)
    checkpoint.batch(10, OURS, '{"logOffset":3}', done=False)
    code, out, err = checkpoint.run()
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"{checkpoint.folder}, query 9725618b",
        "batch 10, the last one, is not done and will run again",
        "source 0: Kafka 0.8 or later, offsets written by format(kafkawire)",
        "topic  partition  offset",
        "t              0       5",
        "t              1      12",
        "source 1 is not a Kafka source",
    ]


def test_the_same_as_json(checkpoint: Checkpoint) -> None:
    checkpoint.batch(0, THEIRS, done=True)
    source = {"source": 0, "kind": "Kafka 0.8 or later", "written_by": "kafka", "start": None}
    assert checkpoint.reported() == {
        "checkpoint": str(checkpoint.folder),
        "query": "9725618b",
        "last_batch": 0,
        "is_done": True,
        "sources": [{**source, "offsets": {"t": {"0": 5, "1": 12}}}],
        "notes": [],
    }


def test_after_the_first_batch_either_connector_goes_on(checkpoint: Checkpoint) -> None:
    for text, target in itertools.product((THEIRS, OURS, PINNED, "{}"), ("kafka", "kafkawire")):
        checkpoint.batch(0, text, done=True)
        checkpoint.batch(1, text, done=False)
        before = checkpoint.files()
        result = checkpoint.reported("--to", target, "--write")
        assert result["notes"] == [f"format({target}): source 0 continues without changes"]
        assert checkpoint.files() == before


def test_a_first_batch_begins_where_it_began(checkpoint: Checkpoint) -> None:
    code, out, _ = checkpoint.run("--to", "kafka", "--write")
    said = "no batch was planned: both connectors treat it as a new query"
    assert (code, out.splitlines()[1]) == (0, said)
    checkpoint.batch(0, OURS, done=False)
    for target in ("kafka", "kafkawire"):
        [line] = checkpoint.reported("--to", target)["notes"]
        assert line.endswith("begins its first batch at startingOffsets: give the same options as before")
    # With the start that Spark's own has written down.
    checkpoint.batch(0, THEIRS, done=False)
    checkpoint.start()
    result = checkpoint.reported("--to", "kafkawire")
    assert result["sources"][0]["start"] == json.loads(START)
    [line] = result["notes"]
    assert line.endswith(f"with these startingOffsets, until its first batch is done: {START}")
    [line] = checkpoint.reported("--to", "kafka")["notes"]
    assert line.endswith("continues without changes")
    # A start is written where none was.
    (checkpoint.folder / "sources/0/0").unlink()
    checkpoint.batch(0, PINNED, PINNED, done=False)
    checkpoint.reported("--to", "kafka", "--write")
    starts = [checkpoint.files()[f"sources/{source}/0"] for source in range(2)]
    assert starts == [b"\0v1\n" + THEIRS.encode()] * 2


def test_a_pinned_first_batch_of_ours_gets_its_start_written_and_what_was_there_is_kept(
    checkpoint: Checkpoint,
) -> None:
    checkpoint.batch(0, PINNED, done=False)
    checkpoint.start()  # of a try of Spark's own connector, at what was latest then
    before = checkpoint.files()
    result = checkpoint.reported("--to", "kafka")
    assert result["notes"] == [
        f"format(kafka): source 0 continues from these offsets once they are written: {THEIRS}"
    ]
    assert checkpoint.files() == before  # without --write
    result = checkpoint.reported("--to", "kafka", "--write")["notes"][1]
    assert "written: sources/0/0; the old file is in" in result
    after = checkpoint.files()
    assert after.pop("kafkawire-backup/sources-0-0.0") == before["sources/0/0"]
    # Hadoop would compare the new text with the old checksum.
    assert before.pop("sources/0/.0.crc")
    assert after == {**before, "sources/0/0": b"\0v1\n" + THEIRS.encode()}
    assert checkpoint.reported("--to", "kafka", "--write")["notes"] == [
        "format(kafka): source 0 continues without changes"
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (IN_PART, "source 0 has a first batch with given starts for some partitions"),
        ('{"t": {"0-1": 5}}', "source 0 is Kafka 0.7, which only format(kafkawire) reads"),
    ],
)
def test_what_cannot_be_right_is_not_written(checkpoint: Checkpoint, text: str, reason: str) -> None:
    checkpoint.batch(0, PINNED, text, done=False)
    before = checkpoint.files()
    code, _, err = checkpoint.run("--to", "kafka", "--write")
    assert code == 1
    assert err.startswith(f"checkpoints: {reason.replace('source 0', 'source 1')}")
    assert err.endswith("nothing was written\n")
    assert checkpoint.files() == before


LEFT: Final = ".0.3e9f8344-394e-42ba-abb0-57e0a68cbaf5.tmp"


def test_what_a_killed_driver_left_of_its_first_batch_is_set_aside(checkpoint: Checkpoint) -> None:
    checkpoint.write(f"offsets/{LEFT}", "v1")
    checkpoint.write("offsets/.what.tmp", "is not Spark's")
    before = checkpoint.files()
    result = checkpoint.reported()["notes"]
    assert [line.split()[0] for line in result] == [f"offsets/.{LEFT}.crc", f"offsets/{LEFT}"]
    assert all("killed before it recorded its first batch" in line for line in result)
    checkpoint.reported("--to", "kafkawire")
    assert checkpoint.files() == before  # without --write
    result = checkpoint.reported("--to", "kafkawire", "--write")["notes"]
    assert [line for line in result if line.startswith("set aside: ")] == [
        f"set aside: {name} is {checkpoint.folder}/kafkawire-backup/offsets-0-unfinished.{number}"
        for number, name in enumerate((f"offsets/.{LEFT}.crc", f"offsets/{LEFT}"))
    ]
    after = checkpoint.files()
    assert after.pop("kafkawire-backup/offsets-0-unfinished.0") == before.pop(f"offsets/.{LEFT}.crc")
    assert after.pop("kafkawire-backup/offsets-0-unfinished.1") == before.pop(f"offsets/{LEFT}")
    assert after == before
    assert checkpoint.reported("--to", "kafkawire", "--write")["notes"] == []


@pytest.mark.parametrize("done", [True, False])
def test_what_a_killed_driver_left_beside_a_batch_stays(checkpoint: Checkpoint, done: bool) -> None:
    checkpoint.batch(0, OURS, done=done)
    checkpoint.write(f"offsets/{LEFT}", "v1")
    before = checkpoint.files()
    for line in checkpoint.reported("--to", "kafkawire", "--write")["notes"]:
        assert line.startswith("format(kafkawire): source 0")
    assert checkpoint.files() == before


def test_report_a_folder_that_is_not_a_checkpoint(checkpoint: Checkpoint) -> None:
    def complaint_after(name: str, text: str) -> str:
        before = checkpoint.files().get(name, b"").decode()
        checkpoint.write(name, text)
        code, out, err = checkpoint.run()
        checkpoint.write(name, before)
        assert (code, out) == (1, "")
        assert err.count("\n") == 1
        assert err.strip().isprintable()
        return err

    checkpoint.batch(0, OURS, done=True)
    assert "metadata: '{' is not JSON" in complaint_after("metadata", "{")
    assert "metadata has no id" in complaint_after("metadata", "[]")
    assert "offsets/0: it begins with 'v3'" in complaint_after("offsets/0", f"v3\n{{}}\n{OURS}")
    assert "offsets/0: it begins with ''" in complaint_after("offsets/0", "")
    assert "sources/0/0: 'v1\\n{}' is not the beginning" in complaint_after("sources/0/0", "v1\n{}")
    (checkpoint.folder / "sources/0/0").unlink()
    checkpoint.batch(2, OURS, done=False)
    code, _, err = checkpoint.run()
    assert code == 1
    assert "batches 1 and 2 are not done, or their commits are missing" in err


ID: Final = f"{ID_MARK}t AAAAAAAAAAAAAAAAAAAABw"
OTHER_ID: Final = f"{ID_MARK}u AAAAAAAAAAAAAAAAAAAABw"
BOTH: Final = json.dumps({"t": {"0": 5}, "u": {"0": 6}, ID: {}, OTHER_ID: {}})


def offsets_of(checkpoint: Checkpoint, number: int) -> list[str]:
    return (checkpoint.folder / f"offsets/{number}").read_text().split("\n")


@pytest.mark.parametrize(
    ("before", "place", "after"),
    [
        (THEIRS, '{"t":{"1":11}}', '{"t":{"0":5,"1":11}}'),
        (OURS, '{"t":{"0":0,"1":1}}', json.dumps({"t": {"0": 0, "1": 1}})),
        (BOTH, '{"t":{"0":3}}', json.dumps({"t": {"0": 3}, "u": {"0": 6}, OTHER_ID: {}})),
        (BOTH, '{"t":{}}', json.dumps({"u": {"0": 6}, OTHER_ID: {}})),
        ('{"t": {"0-1": 500}}', '{"t":{"0-1":0}}', '{"t": {"0-1": 0}}'),
    ],
)
def test_a_query_is_placed_where_its_last_batch_is_done(
    checkpoint: Checkpoint, before: str, place: str, after: str
) -> None:
    checkpoint.batch(2, before, "-", done=True)
    checkpoint.batch(3, before, "-", done=True)
    untouched = checkpoint.files()
    shown = f"source 0: batch 3 ends at {after}"
    assert checkpoint.reported("--place", place)["notes"] == [f"{shown}, with --write"]
    assert checkpoint.files() == untouched
    kept = f"{checkpoint.folder}/kafkawire-backup/offsets-3.0"
    result = checkpoint.reported("--place", place, "--write")
    assert result["notes"] == [shown, f"written: offsets/3; the old file is in {kept}"]
    assert offsets_of(checkpoint, 3) == ["v1", '{"batchWatermarkMs":0}', after, "-"]
    assert Path(kept).read_text().split("\n")[2] == before
    assert not (checkpoint.folder / "offsets/.3.crc").exists()


def test_a_batch_with_a_loss_is_set_aside_where_a_query_is_placed(checkpoint: Checkpoint) -> None:
    for number in (5, 6):
        checkpoint.batch(number, OURS, done=True)
    checkpoint.batch(7, json.dumps({"t": {"0": 5, "1": 4}}), done=False)
    result = checkpoint.reported("--place", '{"t":{"1":4}}', "--write")["notes"]
    backup = f"{checkpoint.folder}/kafkawire-backup"
    assert result[1:] == [
        f"set aside: batch 7, which is not done, is {backup}/offsets-7.0",
        f"written: offsets/6; the old file is in {backup}/offsets-6.0",
    ]
    assert offsets_of(checkpoint, 6)[2] == json.dumps({"t": {"0": 5, "1": 4}})
    assert sorted(path.name for path in (checkpoint.folder / "offsets").iterdir()) == [".5.crc", "5", "6"]
    assert checkpoint.reported()["last_batch"] == 6


def test_what_cannot_be_placed_is_refused_and_nothing_is_written(checkpoint: Checkpoint) -> None:
    def refused(place: str) -> str:
        before = checkpoint.files()
        code, _, err = checkpoint.run("--place", place, "--write")
        assert code == 1
        assert checkpoint.files() == before
        return err

    assert "has planned no batch, so it has no offsets to change" in refused('{"t":{}}')
    checkpoint.batch(0, OURS, done=False)
    assert "batch 0 is not done and will run again: start the query" in refused('{"t":{}}')
    checkpoint.batch(0, OURS, done=True)
    assert "no source of the checkpoint has offsets of u; correct its name; nothing was written" in refused(
        '{"u":{"0":1}}'
    )
    assert "no partition '7' of t; correct its number; nothing was written" in refused('{"t":{"7":1}}')
    checkpoint.batch(1, json.dumps({"t": {"0": 9, "1": 12}}), done=False)
    assert "batch 1 is not done and will run again" in refused('{"t":{"0":1}}')


def test_paths_and_uris_of_this_machine_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "a b"
    Checkpoint(folder, capsys).batch(0, OURS, done=True)
    escaped = str(folder).replace(" ", "%20")
    for path in (f"file://{escaped}", f"file:{escaped}", folder):
        code = SCRIPT.JOB.main([f"{path}/", "--json", "--quiet"])
        assert (code, json.loads(capsys.readouterr().out)["checkpoint"]) == (0, str(folder))
