"""`publish` in transactions: all rows are in the topic once, or no row, whatever happens to a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.errors import OptionError
from spark_kafkawire.jobs.publish.options import PublishOptions
from spark_kafkawire.jobs.publish.rows import MessageColumns, messages
from spark_kafkawire.jobs.publish.run import Published, publish
from spark_kafkawire.jobs.publish.state import PublishState
from spark_kafkawire.jobs.shell.progress import Progress
from spark_kafkawire.jobs.state.sealed import StateError
from spark_kafkawire.source.exactly_once import ExactlyOnceWriter
from tests.support.exactly_once import committed
from tests.support.noida import NoidaBroker

from ..arguments import RunHere

COUNT: Final = 300
VALUES: Final = sorted(b"value %d" % number for number in range(COUNT))


class Broken(Exception):
    """Stands for a kill."""


def rows_of(spark: SparkSession, count: int = COUNT) -> DataFrame:
    numbers = spark.range(0, count, 1, 3)
    return messages(numbers.selectExpr("concat('value ', id) AS v"), MessageColumns(value="v"))


@pytest.fixture
def topic(noida: NoidaBroker) -> str:
    return noida.create_topic(partitions=2)


@pytest.fixture
def run(noida: NoidaBroker, topic: str) -> Callable[..., Published]:
    """Publish rows to the topic."""

    def run(rows: DataFrame, **more: Any) -> Published:
        given = {"kafka.bootstrap.servers": noida.bootstrap_servers, "topic": topic}
        return publish(rows, PublishOptions.parse(given, **{"exactly_once": True, **more}), Progress(None))

    return run


@pytest.fixture
def seen(noida: NoidaBroker, topic: str) -> Callable[[], list[bytes]]:
    return lambda: committed(noida.bootstrap_servers, topic, 2)


def counts(published: Published) -> tuple[int, int | None]:
    return sum(each.message_count for each in published.written), published.found_count


def breaking(monkeypatch: pytest.MonkeyPatch, owner: type, name: str, *, after_it: bool) -> None:
    """Let the next call of a method end the run as a kill does, before or after it."""
    method = getattr(owner, name)

    def breaks(*args: Any) -> None:
        monkeypatch.setattr(owner, name, method)
        if after_it:
            method(*args)
        raise Broken

    monkeypatch.setattr(owner, name, breaks)


def test_a_second_run_with_a_state_writes_nothing(
    spark: SparkSession, run: Callable[..., Published], seen: Callable[[], list[bytes]], tmp_path: Path
) -> None:
    assert counts(run(rows_of(spark), state=str(tmp_path / "s"))) == (COUNT, 0)
    assert counts(run(rows_of(spark), state=str(tmp_path / "s"))) == (0, COUNT)
    assert seen() == VALUES
    # Another directory is another publication.
    assert counts(run(rows_of(spark), state=str(tmp_path / "other"))) == (COUNT, 0)
    assert len(seen()) == 2 * COUNT


@pytest.mark.parametrize("name", ["publication.json", "done.json"])
def test_a_state_whose_record_is_gone_writes_nothing(
    spark: SparkSession,
    run: Callable[..., Published],
    seen: Callable[[], list[bytes]],
    tmp_path: Path,
    name: str,
) -> None:
    run(rows_of(spark), state=str(tmp_path / "s"))
    gone = ["done.json"] if name == "done.json" else ["publication.json", "done.json"]
    for each in gone:
        (tmp_path / "s" / each).unlink()
    with pytest.raises(StateError, match=rf"/{name} is missing, and the folder records that it existed; put"):
        run(rows_of(spark), state=str(tmp_path / "s"))
    assert seen() == VALUES


@pytest.mark.parametrize(
    ("owner", "name", "after_it", "there"),
    [
        (PublishState, "begin", True, 0),
        (ExactlyOnceWriter, "commit", False, 0),
        (ExactlyOnceWriter, "commit", True, COUNT),
        (PublishState, "finish", False, COUNT),
    ],
    ids=["begun", "written", "committed", "not noted"],
)
def test_a_run_that_was_cut_off_is_finished_by_the_next(
    spark: SparkSession,
    run: Callable[..., Published],
    seen: Callable[[], list[bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    name: str,
    after_it: bool,
    there: int,
) -> None:
    monkeypatch.setattr(ExactlyOnceWriter, "abort", lambda *_: None)  # a kill aborts nothing
    breaking(monkeypatch, owner, name, after_it=after_it)
    with pytest.raises(Broken):
        run(rows_of(spark), state=str(tmp_path / "s"))
    assert len(seen()) == there
    assert counts(run(rows_of(spark), state=str(tmp_path / "s"))) == (COUNT - there, there)
    assert seen() == VALUES
    assert run(rows_of(spark), state=str(tmp_path / "s")).was_done


def test_a_given_name_needs_no_state(
    spark: SparkSession, run: Callable[..., Published], seen: Callable[[], list[bytes]], topic: str
) -> None:
    assert counts(run(rows_of(spark), transactional_id=topic)) == (COUNT, 0)
    assert counts(run(rows_of(spark), transactional_id=topic)) == (0, COUNT)
    with pytest.raises(Exception, match="these are other rows, or partitioned otherwise"):
        run(rows_of(spark, COUNT + 10), transactional_id=topic)
    assert seen() == VALUES


def test_a_given_name_is_refused_for_another_topic_and_for_other_rows(
    run_here: RunHere, noida: NoidaBroker, spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    """By its command line; the other rows have the same sizes."""
    other = noida.create_topic(partitions=2)
    for name, start in (("a", 100), ("b", 200)):
        numbers = spark.range(start, start + 50, 1, 1).selectExpr("concat('value ', id) AS v")
        numbers.write.parquet(str(tmp_path / name))
    ended = []
    for name, to in (("a", topic), ("a", other), ("b", topic), ("a", topic)):
        given = f"--option kafka.bootstrap.servers={noida.bootstrap_servers} --input {tmp_path / name}"
        given += f" --topic {to} --value-column v --exactly-once --transactional-id nightly-{topic}"
        ended.append(run_here("publish", *given.split(), "--quiet"))
    assert [code == 0 for code, _, _ in ended] == [True, False, False, True]
    assert f"to topic '{topic}', and not to topic '{other}', for which there are rows now" in ended[1][2]
    assert "with as many rows and bytes, but another content" in ended[2][2]
    assert committed(noida.bootstrap_servers, topic, 2) == [b"value %d" % each for each in range(100, 150)]
    assert committed(noida.bootstrap_servers, other, 2) == []


def test_a_run_whose_task_fails_leaves_nothing(
    spark: SparkSession, run: Callable[..., Published], seen: Callable[[], list[bytes]], topic: str
) -> None:
    rows = rows_of(spark)
    failing = rows.selectExpr(f"if(value = 'value {COUNT - 1}', raise_error('broken row'), value) value")
    with pytest.raises(Exception, match="broken row"):
        run(failing, transactional_id=topic)
    assert seen() == []
    assert counts(run(rows, transactional_id=topic)) == (COUNT, 0)
    assert seen() == VALUES


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        (
            {"exactly_once": False},
            {},
            "was begun without --exactly-once, not with --exactly-once; continue that way",
        ),
        ({}, {"exactly_once": False}, "was begun with --exactly-once, not without --exactly-once"),
        ({}, {"transactional_id": "a"}, "with --exactly-once, not with --transactional-id 'a'"),
    ],
)
def test_a_directory_goes_on_as_it_was_begun(
    spark: SparkSession,
    run: Callable[..., Published],
    tmp_path: Path,
    first: dict[str, Any],
    then: dict[str, Any],
    said: str,
) -> None:
    run(rows_of(spark), state=str(tmp_path / "s"), **first)
    with pytest.raises(OptionError) as error:
        run(rows_of(spark), state=str(tmp_path / "s"), **then)
    assert said in str(error.value)
