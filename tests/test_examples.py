"""The documentation's Python runs, its jobs take the arguments they are shown with, its columns are there."""

from __future__ import annotations

import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.source.schema import HEADERS_FIELD, MODERN_SCHEMA, V07_SCHEMA
from tests.support import librdkafka, registry
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker
from tests.support.pages import ROOT, Block, blocks, table_after

#: The ZooKeeper, the broker and the folder that the pages speak of, and the modern topic that they read.
ZOOKEEPER = "127.0.0.1:2181"
BOOTSTRAP_SERVERS = "127.0.0.1:9092"
FOLDER = "/data/"
TOPIC = "events"
PYTHON_BLOCKS = blocks("python")
JOB_COMMANDS = [
    pytest.param(block, words, id=str(block))
    for block in blocks("sh")
    for words in (shlex.split(command, comments=True) for command in block.commands)
    if words[:1] == ["spark-submit"]
]


@pytest.fixture(scope="module")
def modern() -> Iterator[NoidaBroker]:
    """A modern broker of the pages' own, with their topic."""
    with NoidaBroker() as broker:
        broker.create_topic(partitions=2, name=TOPIC)
        records = [Record(b"value %d" % number, key=b"key", partition=number % 2) for number in range(60)]
        librdkafka.produce(broker.bootstrap_servers, TOPIC, records)
        registry.produce(broker.bootstrap_servers)
        yield broker


@pytest.mark.parametrize("page", sorted({block.page for block in PYTHON_BLOCKS}))
def test_the_python_of_a_page_runs_from_its_top_to_its_end(
    page: str, spark: SparkSession, corpus: EmbeddedCluster, modern: NoidaBroker, tmp_path: Path
) -> None:
    places = {
        ZOOKEEPER: corpus.zookeeper_connect,
        BOOTSTRAP_SERVERS: modern.bootstrap_servers,
        FOLDER: f"{tmp_path}/",
    }
    namespace: dict[str, Any] = {"__name__": "__main__", "spark": spark}
    for block in PYTHON_BLOCKS:
        if block.page == page and block.needs is None:
            # Empty lines first, so that a traceback names the page's own lines.
            code = compile("\n" * (block.line - 1) + moved(block.text, places), ROOT / page, "exec")
            exec(code, namespace)


def moved(text: str, places: dict[str, str]) -> str:
    """A block that speaks of other addresses and folders."""
    for shown, real in places.items():
        text = text.replace(shown, real)
    return text


@pytest.mark.parametrize(("block", "words"), JOB_COMMANDS)
def test_a_job_takes_the_arguments_that_it_is_shown_with(block: Block, words: list[str]) -> None:
    at = next(index for index, word in enumerate(words) if word.endswith(".py"))
    job = runpy.run_path(str(ROOT / words[at]))
    assert job["make_parser"]().parse_args(words[at + 1 :]), block


@pytest.mark.parametrize(
    ("page", "mark", "fields"),
    [
        ("docs/reading-and-writing.md", "<!-- schema: read -->", [*MODERN_SCHEMA, HEADERS_FIELD]),
        ("docs/kafka-0.7.md", "<!-- schema: read 0.7 -->", list(V07_SCHEMA)),
    ],
)
def test_columns_are_those_of_the_code(page: str, mark: str, fields: list[Any]) -> None:
    shown = [(name, kind) for name, kind, _ in table_after(page, mark)]
    assert shown == [(field.name, field.dataType.simpleString()) for field in fields]
