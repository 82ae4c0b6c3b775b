"""A PostgreSQL that random transactions change, Debezium, Apache Kafka, and streams into tables of Delta and
Iceberg whose driver is killed, and so is the broker: ``test_table_formats.py`` runs this test.

``KAFKAWIRE_CDC_KILLS`` and ``KAFKAWIRE_CDC_BROKER_KILLS`` are how often. Each kill of a driver comes with
about 400 transactions.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.broker.cluster import ChildProcess, find_java
from tests.support import librdkafka
from tests.support.certificates import Certificates
from tests.support.local_spark import plain_spark
from tests.support.noida import free_port
from tests.support.polling import poll
from tests.support.stream_kills import Killer, Stream

from .apache_kafka import ApacheKafka
from .jars import NoJars, debezium_jars
from .table_session import table_settings
from .versions import NEWEST

KILLS: Final = int(os.environ.get("KAFKAWIRE_CDC_KILLS", "50"))
BROKER_KILLS: Final = int(os.environ.get("KAFKAWIRE_CDC_BROKER_KILLS", "5"))
SEED: Final = int(os.environ.get("KAFKAWIRE_STREAM_SEED", "1"))
_BIN: Final = Path("/usr/lib/postgresql/15/bin")
_WAIT_S: Final = 300.0
#: Columns of the tables in Spark, and their keys.
_TABLES: Final = {
    "orders": ("id int, customer string, amount string, note string", ["id"]),
    "items": ("order_id int, line int, title string", ["order_id", "line"]),
}
_SEQUENCE: Final = "_sequence struct<lsn:bigint,topic:string,partition:int,offset:bigint>"
_VERSIONS: Final = f"_valid_from timestamp, _valid_to timestamp, _end{_SEQUENCE}"

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(1800 + 120 * KILLS)]


class Postgres:
    """A database in a folder of its own, changed by psql."""

    def __init__(self) -> None:
        # Not below the folders of pytest: each run of it takes the rights of other users away from them.
        self.port, self._folder = free_port(), Path(tempfile.mkdtemp(prefix="kafkawire-postgres-"))
        # PostgreSQL does not run as root.
        self._user: dict[str, Any] = {"user": "postgres"} if os.getuid() == 0 else {}
        if self._user:
            shutil.chown(self._folder, "postgres")

    def _control(self, *words: str) -> None:
        subprocess.run([_BIN / words[0], *words[1:]], check=True, cwd="/", capture_output=True, **self._user)

    def __enter__(self) -> Postgres:
        data = str(self._folder / "data")
        self._control("initdb", "-D", data, "-A", "trust", "-U", "postgres")
        settings = (
            f"-p {self.port} -c wal_level=logical -c listen_addresses=127.0.0.1 -c unix_socket_directories="
        )
        self._control("pg_ctl", "-D", data, "-w", "-o", settings, "-l", f"{self._folder}/log", "start")
        return self

    def __exit__(self, *_: object) -> None:
        self._control("pg_ctl", "-D", str(self._folder / "data"), "-m", "immediate", "stop")
        shutil.rmtree(self._folder)

    def run(self, sql: str) -> str:
        """The rows of a script, a line each."""
        address = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]
        command = ["psql", *address, "-v", "ON_ERROR_STOP=1", "-qAt", "-F", "\t", "-P", "null=NULL"]
        done = subprocess.run(command, input=sql, capture_output=True, text=True, timeout=_WAIT_S)
        assert done.returncode == 0, done.stderr
        return done.stdout


class Transactions:
    """Random transactions over two tables, one of which gets a column on the way."""

    def __init__(self, database: Postgres) -> None:
        self._database, self._random, self.count = database, Random(SEED), 0
        database.run(
            """CREATE TABLE orders (id int PRIMARY KEY, customer text, amount numeric(9,2));
            ALTER TABLE orders REPLICA IDENTITY FULL;
            CREATE TABLE items (order_id int, line int, title text, PRIMARY KEY (order_id, line));
            CREATE PUBLICATION p FOR TABLE orders, items;"""
        )

    def run(self, count: int) -> None:
        """So many more."""
        scripts = []
        if self.count == 0:
            self._database.run("INSERT INTO orders VALUES (1, 'first', 1)")
        elif self.count < 100 <= self.count + count:
            scripts.append("ALTER TABLE orders ADD COLUMN note text;")
        for _ in range(count):
            self.count += 1
            statements = [self._statement() for _ in range(self._random.randint(1, 4))]
            scripts.append(f"BEGIN; {' '.join(statements)} COMMIT;")
        self._database.run("\n".join(scripts))

    def _statement(self) -> str:
        key, other, line = (self._random.randrange(n) for n in (300, 300, 4))
        has_note = self.count >= 200
        value, kind = f"v{self.count}", self._random.random()
        if kind < 0.35:
            more = f", note = '{value}'" if has_note else ""
            return (
                f"INSERT INTO orders (id, customer, amount) VALUES ({key}, '{value}', {self.count}.5) "
                f"ON CONFLICT (id) DO UPDATE SET customer = '{value}', amount = {key}{more};"
            )
        if kind < 0.5:
            return f"DELETE FROM orders WHERE id = {key};"
        if kind < 0.6:
            free = f"NOT EXISTS (SELECT 1 FROM orders WHERE id = {other})"
            return f"UPDATE orders SET id = {other} WHERE id = {key} AND {free};"
        if kind < 0.85:
            return (
                f"INSERT INTO items VALUES ({key}, {line}, '{value}') "
                f"ON CONFLICT (order_id, line) DO UPDATE SET title = '{value}';"
            )
        return f"DELETE FROM items WHERE order_id = {key} AND line < {line};"


@pytest.fixture
def database() -> Iterator[Postgres]:
    if not (_BIN / "initdb").exists():
        pytest.skip("there is no PostgreSQL 15 of Debian")
    with Postgres() as running:
        yield running


def start_debezium(database: Postgres, servers: str, folder: Path) -> ChildProcess:
    """Debezium's engine, which sends to Kafka, once it follows the database."""
    try:
        jars = debezium_jars()
    except NoJars as reason:
        pytest.skip(str(reason))
    settings = {
        "name": "shop",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "offset.storage": "org.apache.kafka.connect.storage.MemoryOffsetBackingStore",
        "database.hostname": "127.0.0.1",
        "database.port": str(database.port),
        "database.user": "postgres",
        "database.password": "none",
        "database.dbname": "postgres",
        "topic.prefix": "shop",
        "plugin.name": "pgoutput",
        "publication.name": "p",
        "decimal.handling.mode": "string",
        "poll.interval.ms": "100",
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
    }
    file, log = folder / "debezium.properties", folder / "debezium.log"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    source = Path(__file__).with_name("SendChanges.java")
    command = [str(find_java()), "-cp", f"{jars}/*", str(source), str(file), servers]
    process = ChildProcess("Debezium", command, output=log, log=log)
    active = "SELECT count(*) FROM pg_replication_slots WHERE active"
    poll(lambda: database.run(active) == "1\n", "Debezium to follow the database", _WAIT_S)
    return process


def stream_of(servers: str, table: str, target: str, history: bool, send: Any) -> Stream:
    columns, keys = _TABLES[table]
    row = f"struct<{columns.replace(' ', ':').replace(',:', ',')}>"
    value = f"value struct<before:{row},after:{row},source:struct<lsn:bigint,ts_ms:bigint>,op:string>"
    merge = json.dumps({"table": target, "keys": keys, "history": history})
    written = {"merge": merge, "schema": f"{value}, topic string, partition int, offset bigint"}
    read = {"kafka.bootstrap.servers": servers, "subscribe": f"shop.public.{table}", "valueFormat": "json"}
    return Stream({**read, "startingOffsets": "earliest"}, written, send)


def versions_reported(servers: str) -> set[tuple[Any, ...]]:
    """Versions of orders, by Debezium's messages: the row, its place, and the place that ended it."""
    last: dict[int, list[Any]] = {}
    result: list[list[Any]] = []
    records = librdkafka.consume(servers, "shop.public.orders")
    changes = [(record, json.loads(record.value)) for record in records if record.value is not None]
    for record, change in sorted(changes, key=lambda item: (item[1]["source"]["lsn"], item[0].offset)):
        location = (change["source"]["lsn"], record.offset)
        row = change["after"] or change["before"]
        if open_version := last.pop(row["id"], None):
            open_version.append(location)
        if change["op"] != "d":
            version = [*(row.get(name) for name in ("id", "customer", "amount", "note")), location]
            last[row["id"]] = version
            result.append(version)
    return {(*version, None) if len(version) == 5 else tuple(version) for version in result}


def check_tables(spark: SparkSession, database: Postgres, servers: str, targets: dict[str, Any]) -> None:
    """Each table is that of the database; each history has the versions that Debezium reported."""
    for table, target, history in targets.values():
        columns = [column.split(" ")[0] for column in _TABLES[table][0].split(", ")]
        rows = spark.table(target)
        if history:
            kept = rows.select(*columns, "_sequence.lsn", "_sequence.offset", "_end_sequence").collect()
            result = [
                (*row[:4], (row[4], row[5]), None if row[6] is None else (row[6].lsn, row[6].offset))
                for row in kept
            ]
            assert len(result) == len(set(result))
            assert set(result) == versions_reported(servers), target
        else:
            texts = [
                tuple("NULL" if item is None else str(item) for item in row[:])
                for row in rows.select(*columns).collect()
            ]
            lines = database.run(f"SELECT {', '.join(columns)} FROM {table}").splitlines()
            assert sorted(texts) == sorted(tuple(line.split("\t")) for line in lines), target


def test_tables_are_those_of_the_database(
    database: Postgres, tmp_path: Path, certificates: Certificates
) -> None:
    settings = table_settings(tmp_path)
    spark = plain_spark("tables of a database", settings)
    targets = {
        f"{table} {form}{' history' * history}": (table, location.format(f"{table}_{int(history)}"), history)
        for form, location in (("delta", f"delta.`{tmp_path}/{{}}`"), ("iceberg", "ice.db.{}"))
        for table, history in (("orders", False), ("items", False), ("orders", True))
    }
    for name, (table, target, history) in targets.items():
        columns = f"{_TABLES[table][0]}, {_SEQUENCE}" + (f", {_VERSIONS}" if history else "")
        spark.sql(f"CREATE TABLE {target} ({columns}) USING {name.split()[1]}")
    draw, transactions = Random(SEED), Transactions(database)
    (tmp_path / "kafka").mkdir()
    with ApacheKafka(NEWEST, tmp_path / "kafka", certificates) as broker:
        servers = broker.bootstrap_servers()
        for table in _TABLES:
            librdkafka.create_topic(servers, 1, f"shop.public.{table}")
        left = BROKER_KILLS

        def send(values: list[bytes]) -> None:
            nonlocal left
            transactions.run(len(values))
            if left and draw.random() < BROKER_KILLS / (5 * max(KILLS, 1)):
                left -= 1
                broker.kill()
                broker.start()

        def has_end(topic: str) -> bool:
            return any(b"the end" in (item.value or b"") for item in librdkafka.consume(servers, topic))

        def finish() -> None:
            for table, keys in (("orders", "9999"), ("items", "9999, 0")):
                name = "customer" if table == "orders" else "title"
                columns = ", ".join([*_TABLES[table][1], name])
                database.run(f"INSERT INTO {table} ({columns}) VALUES ({keys}, 'the end')")
                poll(partial(has_end, f"shop.public.{table}"), f"the last change of {table}", _WAIT_S)

        streams = {
            name.replace(" ", "-"): stream_of(servers, *target, send) for name, target in targets.items()
        }
        debezium = start_debezium(database, servers, tmp_path)
        try:
            Killer(streams, tmp_path, SEED, settings).run(KILLS, 0, finish)
        finally:
            debezium.kill()
        print(f"{transactions.count} transactions, {BROKER_KILLS - left} kills of the broker")
        check_tables(spark, database, servers, targets)
    spark.stop()
