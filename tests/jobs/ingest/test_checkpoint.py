"""Ingest whose progress is kept in a folder of its own, as a user runs it, in this process."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.jobs.ingest.output import Output
from spark_kafkawire.jobs.ingest.state import IngestState
from spark_kafkawire.jobs.shell.command_line import run_job
from spark_kafkawire.jobs.shell.failures import ExitCode
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

from ..arguments import command
from .ingesting import Crash, crash

SCRIPT: Final = command("ingest")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def topic(noida: NoidaBroker) -> str:
    return noida.create_topic()


@pytest.fixture
def run(
    spark: SparkSession,
    noida: NoidaBroker,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Run the job on the topic, in the session of the tests: exit code, stdout, stderr."""
    monkeypatch.setattr(SCRIPT, "job_session", lambda _: contextlib.nullcontext(spark))
    broker = f"--option=kafka.bootstrap.servers={noida.bootstrap_servers}"

    def run(output: Path, checkpoint: Path, *argv: str) -> tuple[int, str, str]:
        where = ("--output", str(output), "--checkpoint", str(checkpoint))
        words = [broker, "--topic", topic, *where, "--json", "--quiet", *argv]
        code = run_job(SCRIPT.make_parser(), SCRIPT.run, words)
        return code, *capsys.readouterr()

    return run


def done(result: tuple[int, str, str]) -> dict[str, Any]:
    """The summary of a run that did its work."""
    code, out, err = result
    assert (code, err) == (ExitCode.DONE, "")
    summary: dict[str, Any] = json.loads(out)
    return summary


def refused(result: tuple[int, str, str], code: ExitCode) -> str:
    """The one line of a run that did nothing."""
    assert result[:2] == (code, "")
    assert result[2].count("\n") == 1
    return result[2].removeprefix("ingest: ").rstrip("\n")


def produce(noida: NoidaBroker, topic: str, numbers: range) -> None:
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"%d" % number) for number in numbers])


def numbers_in(spark: SparkSession, output: Path) -> list[int]:
    """All that the output holds, sorted; what is doubled twice."""
    return sorted(int(row.value) for row in spark.read.parquet(str(output)).select("value").collect())


def plans_in(folder: Path) -> list[str]:
    """Names of the plans that are kept there. Hadoop keeps checksums in hidden files."""
    return sorted(path.name for path in folder.glob("[0-9]*.json"))


def test_a_second_run_picks_up_where_the_first_one_ended(
    spark: SparkSession, noida: NoidaBroker, topic: str, run: Run, tmp_path: Path
) -> None:
    output, checkpoint = tmp_path / "out", tmp_path / "progress"
    produce(noida, topic, range(10))
    assert done(run(output, checkpoint))["messages"] == 10
    produce(noida, topic, range(10, 25))
    summary = done(run(output, checkpoint))
    assert [batch["ranges"] for batch in summary["batches"]] == [
        [{"partition": f"{topic} 0", "start": 10, "stop": 25}]
    ]
    assert done(run(output, checkpoint))["batches"] == []
    assert numbers_in(spark, output) == [*range(25)]
    assert plans_in(checkpoint) == ["0.done.json", "1.done.json"]
    assert sorted(path.name for path in output.glob("batch=*")) == ["batch=0", "batch=1"]
    assert plans_in(output / "_kafkawire") == []


@pytest.mark.parametrize(
    ("step", "is_written"), [((Output, "write"), False), ((IngestState, "finish"), True)]
)
def test_a_run_that_was_killed_is_finished_by_the_next_one(
    step: tuple[type[Any], str],
    is_written: bool,
    spark: SparkSession,
    noida: NoidaBroker,
    topic: str,
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before its output is there, or between the output and the checkpoint."""
    output, checkpoint = tmp_path / "out", tmp_path / "progress"
    produce(noida, topic, range(10))
    with monkeypatch.context() as patched:
        patched.setattr(*step, crash)
        with pytest.raises(Crash):
            run(output, checkpoint)
    assert plans_in(checkpoint) == ["0.planned.json"]
    assert (output / "batch=0").exists() == is_written
    produce(noida, topic, range(10, 25))
    finished, new = done(run(output, checkpoint))["batches"]
    assert (finished["messages"], new["messages"]) == (0 if is_written else 10, 15)
    assert finished.get("written_by") == ("an earlier run" if is_written else None)
    assert numbers_in(spark, output) == [*range(25)]


def test_an_output_whose_checkpoint_is_elsewhere_is_refused(
    spark: SparkSession, noida: NoidaBroker, topic: str, run: Run, tmp_path: Path
) -> None:
    output, empty = tmp_path / "out", tmp_path / "empty"
    produce(noida, topic, range(10))
    done(run(output, tmp_path / "progress"))
    produce(noida, topic, range(10, 25))
    line = refused(run(output, empty), ExitCode.FAILED)
    assert line == (
        f"{output}/batch=0 is of a run that is not recorded, or of one with another --checkpoint: give each "
        "an --output of its own"
    )
    assert plans_in(empty) == []
    assert done(run(output, tmp_path / "progress"))["messages"] == 15
    assert numbers_in(spark, output) == [*range(25)]


def test_a_checkpoint_that_is_no_folder_or_holds_something_else_is_told(
    noida: NoidaBroker, topic: str, run: Run, tmp_path: Path
) -> None:
    produce(noida, topic, range(10))
    file = tmp_path / "file"
    file.write_text("something else")
    assert refused(run(tmp_path / "out", file), ExitCode.FAILED).startswith(f"{file}: cannot ")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / "0.done.json").write_text("{}")
    line = refused(run(tmp_path / "out", damaged), ExitCode.FAILED)
    assert line.startswith(f"{damaged}/0.done.json is not a plan of ingest, or damaged: its format is")
    assert not list((tmp_path / "out").glob("batch=*"))


def test_the_folder_of_the_output_itself_may_be_named(
    spark: SparkSession, noida: NoidaBroker, topic: str, run: Run, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    produce(noida, topic, range(10))
    assert done(run(output, output / "_kafkawire"))["messages"] == 10
    moved = output.rename(tmp_path / "moved")
    produce(noida, topic, range(10, 25))
    assert done(run(moved, moved / "_kafkawire"))["messages"] == 15
    assert numbers_in(spark, moved) == [*range(25)]
