"""Changes merged into tables of Delta and Iceberg: ``test_table_formats.py`` runs these tests in a process of
their own, whose Spark and jars are of the one version that both formats have."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from spark_kafkawire.changes import changes, merge_changes
from spark_kafkawire.errors import OptionError
from tests.changes.debezium import ITEM, ORDER, envelope, in_order, produced, read, selected
from tests.support.local_spark import plain_spark
from tests.support.noida import NoidaBroker
from tests.support.pages import blocks
from tests.support.spark_streams import run

from .table_session import new_table, table_settings

pytestmark = pytest.mark.jvm

_SEQUENCE: Final = "struct<lsn:bigint,topic:string,partition:int,offset:bigint>"
_ADDED: Final = f"_op string, _deleted boolean, _sequence {_SEQUENCE}, _ts timestamp"
_CHANGES: Final = f"id int, v string, {_ADDED}"
_SEED: Final = int(os.environ.get("SEED", "48"))

Row = dict[str, Any]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    spark = plain_spark("tables of changes", table_settings(tmp_path_factory.mktemp("tables")))
    yield spark
    spark.stop()


@pytest.fixture(params=["delta", "iceberg"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def rows_of(frame: DataFrame, *keys: str) -> list[Row]:
    return in_order([row.asDict(recursive=True) for row in frame.collect()], *keys)


class Database:
    """A table that random transactions change, the changes, and all versions of its rows."""

    def __init__(self, random: Random) -> None:
        self.rows: dict[int, str] = {}
        self.changes: list[Row] = []
        self.versions: list[Row] = []
        self._random = random

    def transaction(self) -> None:
        key = self._random.randrange(12)
        kind = self._random.choice(("put", "put", "delete", "move"))
        if kind == "put" or key not in self.rows:
            self._put(key, f"v{len(self.changes)}")
            return
        value = self.rows[key]
        self._delete(key)
        if kind == "move" and (free := self._random.randrange(12)) not in self.rows:
            self._put(free, value)

    def _put(self, key: int, value: str) -> None:
        self._change(key, value, "u" if key in self.rows else "c")
        self.rows[key] = value

    def _delete(self, key: int) -> None:
        del self.rows[key]
        self._change(key, None, "d")

    def _change(self, key: int, value: str | None, op: str) -> None:
        offset = len(self.changes)
        # Two changes share a place in the log, as a move of a row does.
        sequence = {"lsn": offset // 2, "topic": "shop", "partition": 0, "offset": offset}
        ts = datetime(2026, 11, 28) + timedelta(seconds=offset)
        change = {"_op": op, "_deleted": op == "d", "_sequence": sequence, "_ts": ts}
        self.changes.append({"id": key, "v": value, **change})
        for version in self.versions:
            if version["id"] == key and version["_valid_to"] is None:
                version |= {"_valid_to": ts, "_end_sequence": sequence}
        if op != "d":
            start = {"id": key, "v": value, "_sequence": sequence, "_valid_from": ts}
            self.versions.append({**start, "_valid_to": None, "_end_sequence": None})


@pytest.fixture(scope="module")
def database() -> Database:
    database = Database(Random(_SEED))
    for _ in range(120):
        database.transaction()
    assert {change["_op"] for change in database.changes} == {"c", "u", "d"}
    return database


def batches_of(session: SparkSession, database: Database, random: Random) -> list[DataFrame]:
    """The changes in order, in batches whose rows are shuffled."""
    places = [0, *sorted(random.sample(range(1, len(database.changes)), 3)), len(database.changes)]
    made = []
    for start, stop in itertools.pairwise(places):
        rows = random.sample(database.changes[start:stop], stop - start)
        made.append(session.createDataFrame([tuple(row.values()) for row in rows], _CHANGES).repartition(2))
    return made


def test_the_table_is_that_of_the_database(session: SparkSession, form: str, database: Database) -> None:
    """Each batch comes twice; then all come again from an older one on, as after a start at older offsets."""
    table = new_table(session, form, f"id int, v string, _sequence {_SEQUENCE}")
    merge = merge_changes(table, "id")
    batches = batches_of(session, database, Random(_SEED))
    for location in (0, 0, 1, 1, 2, 3, 1, 2, 3):
        merge(batches[location], location)
    result = session.table(table).select("id", "v")
    expected = [{"id": key, "v": database.rows[key]} for key in sorted(database.rows)]
    assert rows_of(result, "id") == expected
    merge(batches[1], 1)
    # Only what was deleted since then may be there again.
    assert [row for row in rows_of(result, "id") if row["id"] in database.rows] == expected


def test_marked_rows_are_those_that_the_database_deleted(
    session: SparkSession, form: str, database: Database
) -> None:
    """Older batches change nothing, because marks keep the place of the delete."""
    table = new_table(session, form, f"id int, v string, _op string, _sequence {_SEQUENCE}")
    merge = merge_changes(table, ["ID"], deletes="mark")
    batches = batches_of(session, database, Random(_SEED + 1))
    for location in (0, 1, 1, 0, 3, 2, 0):
        merge(batches[location], location)
    kept = session.table(table).where("_op <> 'd'").select("id", "v")
    assert rows_of(kept, "id") == [{"id": key, "v": database.rows[key]} for key in sorted(database.rows)]
    gone = {change["id"] for change in database.changes} - set(database.rows)
    assert {row.id for row in session.table(table).where("_op = 'd'").collect()} == gone


def test_a_history_has_all_versions(session: SparkSession, form: str, database: Database) -> None:
    more = f"_valid_from timestamp, _valid_to timestamp, _end_sequence {_SEQUENCE}"
    table = new_table(session, form, f"id int, v string, _sequence {_SEQUENCE}, {more}")
    merge = merge_changes(table, "id", history=True)
    batches = batches_of(session, database, Random(_SEED + 2))
    for location in (0, 1, 1, 0, 2, 0, 3, 3, 1):
        merge(batches[location], location)
    result = rows_of(session.table(table), "_valid_from")
    assert result == in_order(database.versions, "_valid_from")


def test_columns_that_differ_are_one_error(session: SparkSession, form: str) -> None:
    table = new_table(session, form, f"id int, v string, _sequence {_SEQUENCE}")
    merge = merge_changes(table, "id")
    row = (1, "a", "c", False, (1, "shop.orders", 0, 0), datetime(2026, 11, 28))
    batch = session.createDataFrame([row], _CHANGES)
    for wrong, words in (
        (batch.drop("v"), "topic shop.orders has no column v any more, which table"),
        (
            batch.selectExpr("id", "1 AS v", "_op", "_deleted", "_sequence", "_ts"),
            "column v as int, and table",
        ),
        (batch.selectExpr("*", "1 AS more"), r"topic shop.orders has a new column more \(int\), which table"),
    ):
        with pytest.raises(OptionError, match=words):
            merge(wrong, 0)
    assert session.table(table).count() == 0


def test_a_table_of_delta_that_evolves_gets_a_new_column(session: SparkSession) -> None:
    table = new_table(session, "delta", f"id bigint, v string, _sequence {_SEQUENCE}")
    row = (1, "a", "c", False, (1, "shop.orders", 0, 0), datetime(2026, 11, 28))
    batch = session.createDataFrame([row], _CHANGES).selectExpr("*", "named_struct('x', 1) AS `mo-re`")
    setting = "spark.databricks.delta.schema.autoMerge.enabled"
    session.conf.set(setting, "true")
    try:
        merge_changes(table, "id")(batch, 0)
    finally:
        session.conf.unset(setting)
    assert [(row.id, row["mo-re"].x) for row in session.table(table).collect()] == [(1, 1)]


def test_a_stream_of_recorded_messages_gives_the_table_of_the_database(
    session: SparkSession, form: str, noida: NoidaBroker, tmp_path: Path
) -> None:
    """It comes a second time from the start."""
    topic = produced(noida, "envelope", "shop.public.orders")
    options = {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic, "valueFormat": "json"}
    schema = f"value {envelope(ORDER)}, topic string, partition int, offset bigint"
    reader = session.readStream.format("kafkawire").schema(schema).options(**options)
    rows = changes(reader.option("startingOffsets", "earliest").load())
    name = new_table(session, form, f"{ORDER}, _sequence {_SEQUENCE}")
    for checkpoint in ("first", "second"):
        writer = rows.writeStream.foreachBatch(merge_changes(name, "id")).trigger(availableNow=True)
        run(writer.option("checkpointLocation", str(tmp_path / checkpoint)))
    assert rows_of(session.table(name).drop("_sequence"), "id") == in_order(selected("orders"), "id")


@pytest.mark.parametrize("deletes", ["delete", "mark"])
def test_a_truncate_empties_the_table_if_it_is_to_be_applied(
    session: SparkSession, form: str, noida: NoidaBroker, deletes: Any
) -> None:
    topic, keys = produced(noida, "envelope", "shop.public.items"), ["order_id", "line"]
    columns = ITEM.replace("smallint", "int")
    rows = changes(read(session, noida, topic, envelope(columns)))
    name = new_table(session, form, f"{columns}, _op string, _sequence {_SEQUENCE}")
    with pytest.raises(PySparkException, match=r"the topic truncates .*lsn"):
        merge_changes(name, keys)(rows, 0)
    merge = merge_changes(name, keys, deletes=deletes, truncates="apply")
    merge(rows.where("_sequence.offset < 8"), 0)
    assert session.table(name).count() > 2
    merge(rows, 1)
    merge(rows, 1)
    result = session.table(name).where("_op NOT IN ('d', 't')").drop("_op", "_sequence")
    assert rows_of(result, *keys) == in_order(selected("items"), *keys)


@pytest.mark.parametrize(
    ("page", "table", "expected"),
    [
        ("change-data", "orders", [{"id": 2, "customer": "Lou"}]),
        (
            "delta-iceberg",
            "appended",
            [{"offset": number, "order": f"order {number}"} for number in range(1000)],
        ),
    ],
)
def test_the_blocks_of_the_page_run(
    page: str,
    table: str,
    expected: list[Row],
    session: SparkSession,
    noida: NoidaBroker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Blocks that need a table format run, too."""
    namespace: dict[str, Any] = {"spark": session}
    for block in blocks("python"):
        if block.page == f"docs/{page}.md" and block.needs in (None, "delta"):
            code = block.text.replace("127.0.0.1:9092", noida.bootstrap_servers)
            exec(code.replace("./data/", f"{tmp_path}/"), namespace)
            printed = capsys.readouterr().out
            assert block.output is None or block.output.strip() == printed.strip(), block
    query = namespace["query"]
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    columns = list(expected[0])
    assert rows_of(session.table(table).select(*columns), columns[0]) == expected
