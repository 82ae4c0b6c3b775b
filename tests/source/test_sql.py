"""Views and tables of SQL: the options that Spark passes to a Python source, and those that it does not."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

from .task_errors import message_of


@pytest.fixture
def topic(noida: NoidaBroker) -> str:
    topic = noida.create_topic()
    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"a", key=b"k"), Record(b"b")])
    return topic


@pytest.fixture
def name(spark: SparkSession) -> Iterator[str]:
    """The name of a view or a table that a test makes."""
    name = f"events_{uuid.uuid4().hex}"
    yield name
    spark.catalog.dropTempView(name)
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def options(noida: NoidaBroker, **others: str) -> str:
    given = {"kafka.bootstrap.servers": noida.bootstrap_servers, **others}
    return ", ".join(f"'{option}'='{value}'" for option, value in given.items())


def values(spark: SparkSession, query: str) -> list[str]:
    return sorted(value for [value] in spark.sql(query).collect())


def written(noida: NoidaBroker, topic: str) -> list[bytes]:
    return sorted(record.value or b"" for record in librdkafka.consume(noida.bootstrap_servers, topic))


def test_view_of_both_sides(spark: SparkSession, noida: NoidaBroker, topic: str, name: str) -> None:
    target = noida.create_topic()
    both = options(noida, subscribe=topic, topic=target, acks="all", failOnDataLoss="false")
    spark.sql(f"CREATE TEMPORARY VIEW {name} USING kafkawire OPTIONS ({both})")
    assert values(spark, f"SELECT CAST(value AS STRING) FROM {name} WHERE offset > 0") == ["b"]
    assert spark.table(name).columns[:3] == ["key", "value", "topic"]
    spark.sql(f"INSERT INTO {name} SELECT * FROM {name}")
    assert written(noida, target) == [b"a", b"b"]
    with pytest.raises(AnalysisException, match="a Kafka log can only be appended to"):
        spark.sql(f"INSERT OVERWRITE {name} SELECT * FROM {name}")


def test_insert_into_a_view_without_a_topic(
    spark: SparkSession, noida: NoidaBroker, topic: str, name: str
) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW {name} USING kafkawire OPTIONS ({options(noida, subscribe=topic)})")
    with pytest.raises(PySparkException, match="topic is null; fill it, or set the option topic"):
        spark.sql(f"INSERT INTO {name} SELECT key, value, NULL, 0, 0L, NULL, 0 FROM {name}")
    columns = f"CREATE OR REPLACE TEMPORARY VIEW {name} (value BINARY) USING kafkawire"
    spark.sql(f"{columns} OPTIONS ({options(noida, subscribe=topic)})")
    with pytest.raises(AnalysisException, match="Use the topic option for setting a topic"):
        spark.sql(f"INSERT INTO {name} SELECT value FROM {name}")
    assert written(noida, topic) == [b"a", b"b"]


def test_table_with_columns(spark: SparkSession, noida: NoidaBroker, topic: str, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (value BINARY, partition INT) USING kafkawire")
    query = f"SELECT CAST(value AS STRING) FROM {name} WITH ({options(noida, subscribe=topic)})"
    assert values(spark, query) == ["a", "b"]
    spark.sql(f"INSERT INTO {name} WITH ({options(noida, topic=topic)}) VALUES (CAST('c' AS BINARY), 0)")
    assert values(spark, query) == ["a", "b", "c"]
    given = {"kafka.bootstrap.servers": noida.bootstrap_servers, "subscribe": topic}
    assert spark.read.options(**given).table(name).count() == 3


def test_refuse_table_without_options(spark: SparkSession, noida: NoidaBroker, topic: str, name: str) -> None:
    given = options(noida, subscribe=topic)
    with pytest.raises(AnalysisException, match=r"CREATE TABLE .* use CREATE TEMPORARY VIEW") as refused:
        spark.sql(f"CREATE TABLE {name} USING kafkawire OPTIONS ({given})")
    assert message_of(refused.value).isprintable()
    spark.sql(f"CREATE TABLE {name} (value BINARY) USING kafkawire OPTIONS ({given})")
    for query in (f"SELECT * FROM {name}", f"INSERT INTO {name} VALUES (CAST('c' AS BINARY))"):
        with pytest.raises(AnalysisException, match=r"no option is set.* or give the options with each use"):
            spark.sql(query).collect()


def test_saved_as_a_table(spark: SparkSession, noida: NoidaBroker, topic: str, name: str) -> None:
    rows = spark.sql("SELECT CAST('c' AS BINARY) AS value")
    writer = rows.write.format("kafkawire").mode("append").option("topic", topic)
    writer.option("kafka.bootstrap.servers", noida.bootstrap_servers).saveAsTable(name)
    assert written(noida, topic) == [b"a", b"b", b"c"]
    with pytest.raises(AnalysisException, match="where this is a table of the catalog"):
        spark.table(name).collect()


@pytest.mark.nightly
def test_spark_sql_reads_and_inserts(noida: NoidaBroker, topic: str, tmp_path: Path) -> None:
    queries = [
        f"CREATE TEMPORARY VIEW v (value BINARY) USING kafkawire OPTIONS "
        f"({options(noida, subscribe=topic, topic=topic)})",
        "INSERT INTO v VALUES (CAST('c' AS BINARY))",
        "SELECT CAST(value AS STRING) FROM v",
    ]
    home = Path(pyspark.__file__).parent
    settings = ("spark.sql.catalogImplementation=in-memory", "spark.ui.enabled=false")
    words = [str(home / "bin" / "spark-sql"), "--master", "local[2]"]
    words += [word for setting in settings for word in ("--conf", setting)]
    environ = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [*words, "-e", "; ".join(queries)], cwd=tmp_path, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == ["a", "b", "c"]
