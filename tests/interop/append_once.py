"""Batches appended to tables of Delta and Iceberg: ``test_table_formats.py`` runs these tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.errors import OptionError
from spark_kafkawire.jobs.files import FileError
from spark_kafkawire.jobs.ingest.output import OutputOptions, Table
from spark_kafkawire.jobs.ingest.run import Ingest
from spark_kafkawire.jobs.ingest.state import IngestState
from spark_kafkawire.sinks import append_once, fan_out
from tests.jobs.ingest.ingesting import QUIET, Crash, crash, options_of
from tests.support.local_spark import plain_spark
from tests.support.noida import NoidaBroker
from tests.support.spark_streams import lose_commit, run, send, stream

from .table_session import new_table, table_settings

pytestmark = pytest.mark.jvm


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    spark = plain_spark("tables that streams append to", table_settings(tmp_path_factory.mktemp("tables")))
    yield spark
    spark.stop()


@pytest.fixture(params=["delta", "iceberg"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ids(session: SparkSession, table: str) -> list[int]:
    return sorted(row.id for row in session.table(table).collect())


def test_batches_that_come_again_are_there_once(
    session: SparkSession, form: str, noida: NoidaBroker, tmp_path: Path
) -> None:
    """Other writers, and compaction, come between a batch and its repetition."""
    topic, table = noida.create_topic(), new_table(session, form, "id bigint")
    write = fan_out({topic: append_once(table, format=form)})  # type: ignore[arg-type]
    for number in range(2):
        send(noida, topic, range(10 * number, 10 * number + 10))
        rows = stream(session, noida, topic, startingOffsets="earliest")
        # The route drops the topic.
        rows = rows.selectExpr("topic", "bigint(string(value)) AS id")
        route = replace(write.routes[(topic,)], prepare=lambda rows: rows.select("id"))
        writer = rows.writeStream.foreachBatch(replace(write, routes={(topic,): route}))
        writer = writer.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "checkpoint"))
        for _ in range(2):
            run(writer)
            session.sql(f"INSERT INTO {table} VALUES (-1)")
            lose_commit(tmp_path / "checkpoint", number)
        run(writer)
    assert ids(session, table) == [-1] * 4 + [*range(20)]


def test_what_the_table_knows_of_a_query(session: SparkSession, form: str) -> None:
    table, batch = new_table(session, form, "id bigint"), session.range(7)
    write = append_once(table, format=form, name="orders")  # type: ignore[arg-type]
    assert write.newest(session, "orders") is None
    write(batch, 3)
    write(session.range(0), 4)
    assert (write.newest(session, "orders"), write.newest(session, "other")) == ((4, 0), None)
    append_once(table, format=form, name="other")(batch, 3)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="has batch 4 of query orders, and batch 3 comes after it"):
        write(batch, 3)
    assert Counter(ids(session, table)) == dict.fromkeys(range(7), 2)


def test_runs_of_ingest_append_once(
    session: SparkSession, form: str, noida: NoidaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends after its commit, and before it has noted that, is finished by the next one."""
    topic, table = noida.create_topic(partitions=2), new_table(session, form, "value string, offset bigint")
    output = OutputOptions(table=Table.of(f"{form}:{table}"), decode="string")
    for number in range(3):
        send(noida, topic, range(10 * number, 10 * number + 10), partition=number % 2)
        job = partial(options_of, noida, topic, output, checkpoint=str(tmp_path / "progress"))
        with monkeypatch.context() as patched:
            patched.setattr(IngestState, "finish", crash)
            run_once = Ingest(session, job(starting={"startingOffsets": "earliest"}), QUIET).run
            with pytest.raises(Crash):
                run_once()
        summary = Ingest(session, job(), QUIET).run()
        assert (summary["output"], summary["messages"]) == (f"{form}:{table}", 0)
        assert [batch.get("written_by") for batch in summary["batches"]] == ["an earlier run"]
    result = sorted(int(row.value) for row in session.table(table).collect())
    assert result == [*range(30)]
    for file in (tmp_path / "progress").glob("2.*"):
        file.rename(tmp_path / file.name)
    with pytest.raises(FileError, match="has batch 2 of this checkpoint, whose newest record is batch 1"):
        Ingest(session, job(), QUIET).run()


def test_columns_that_would_be_null_are_an_error(session: SparkSession, form: str) -> None:
    table = new_table(session, form, "id bigint, v string")
    with pytest.raises(OptionError, match="has column v, which the rows lack: add it"):
        append_once(table, format=form, name="q")(session.range(1), 0)  # type: ignore[arg-type]
    assert ids(session, table) == []


def test_delta_takes_one_of_two_that_append_at_the_same_time(session: SparkSession) -> None:
    """Both find the batch missing; what the table knows is beyond the commits that are looked at."""
    table = new_table(session, "delta", "id bigint")
    write = append_once(table, format="delta", name="q")
    write(session.range(5), 0)

    def again(number: int) -> str:
        try:
            options = write._marks("q", number)
            session.range(5).writeTo(table).options(**options).append()
        except Exception as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(2) as pool:
        errors = [error for error in pool.map(again, (0, 0, 1, 1)) if error]
    assert all("ConcurrentTransaction" in error or "CONCURRENT" in error for error in errors), errors
    assert len(ids(session, table)) == 10


def test_iceberg_says_when_the_snapshot_of_a_batch_has_expired(session: SparkSession) -> None:
    table, batch = new_table(session, "iceberg", "id bigint"), session.range(3)
    write = append_once(table, format="iceberg", name="q")
    write(batch, 0)
    write(batch, 1)
    session.sql(f"INSERT INTO {table} VALUES (-1)")
    expire = "CALL ice.system.expire_snapshots(table => '{}', older_than => now(), retain_last => 1)"
    session.sql(expire.format(table.removeprefix("ice.")))
    with pytest.raises(OptionError, match="old ones have expired, so it is not known whether it has batch 1"):
        write(batch, 1)


def test_iceberg_appends_what_was_rolled_back(session: SparkSession) -> None:
    table = new_table(session, "iceberg", "id bigint")
    write = append_once(table, format="iceberg", name="q")
    session.sql(f"INSERT INTO {table} VALUES (-1)")
    first = session.table(f"{table}.snapshots").first()
    assert first is not None
    write(session.range(3), 0)
    call = f"CALL ice.system.rollback_to_snapshot('{table.removeprefix('ice.')}', {first.snapshot_id})"
    session.sql(call)
    assert ids(session, table) == [-1]
    write(session.range(3), 0)
    assert ids(session, table) == [-1, 0, 1, 2]
