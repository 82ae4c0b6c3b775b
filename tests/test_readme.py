"""README tells the truth: its Python runs, its commands exist, its tables are the code's."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.options import OPTIONS
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.noida import NoidaBroker

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
#: The ZooKeeper and the broker that README's examples speak of, and the modern topic that they read.
README_ZOOKEEPER = "127.0.0.1:2181"
README_BOOTSTRAP_SERVERS = "127.0.0.1:9092"
README_TOPIC = "events"
SHELL_LANGUAGES = {"sh", "bash", "shell", "console"}
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_WORD = re.compile(r"[\w./-]+\.(py|md|cfg|toml|json|properties|conf)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, and the line of README that the text starts on."""

    language: str
    text: str
    line: int

    def __str__(self) -> str:
        return f"line {self.line}"


def readme_blocks() -> list[Block]:
    text = README.read_text("utf-8")
    return [
        Block(fence[1], fence[2], text.count("\n", 0, fence.start(2)) + 1) for fence in FENCE.finditer(text)
    ]


BLOCKS = readme_blocks()
PYTHON_BLOCKS = [block for block in BLOCKS if block.language == "python"]
SHELL_BLOCKS = [block for block in BLOCKS if block.language in SHELL_LANGUAGES]


@pytest.fixture(scope="module")
def namespace(spark: SparkSession) -> dict[str, Any]:
    """What README's blocks know: ``spark``, and the names of the blocks above them."""
    return {"__name__": "__main__", "spark": spark}


@pytest.fixture(scope="module")
def modern() -> Iterator[NoidaBroker]:
    """A modern broker of README's own, with its topic."""
    with NoidaBroker() as broker:
        broker.create_topic(partitions=2, name=README_TOPIC)
        records = [Record(b"value %d" % number, key=b"key", partition=number % 2) for number in range(60)]
        librdkafka.produce(broker.bootstrap_servers, README_TOPIC, records)
        yield broker


def test_readme_has_blocks_to_check() -> None:
    assert PYTHON_BLOCKS
    assert SHELL_BLOCKS


@pytest.mark.parametrize("block", PYTHON_BLOCKS, ids=str)
def test_python_block_runs_after_the_blocks_above_it(
    block: Block, namespace: dict[str, Any], corpus: EmbeddedCluster, modern: NoidaBroker
) -> None:
    text = block.text.replace(README_ZOOKEEPER, corpus.zookeeper_connect)
    text = text.replace(README_BOOTSTRAP_SERVERS, modern.bootstrap_servers)
    # Empty lines first, so that a traceback names README's own lines.
    exec(compile("\n" * (block.line - 1) + text, README, "exec"), namespace)


@pytest.mark.parametrize("block", SHELL_BLOCKS, ids=str)
def test_shell_block_names_only_what_exists(block: Block) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words[:1] == ["make"]:
            asked = {word for word in words[1:] if "=" not in word}
            assert asked <= targets, line
        if "-m" in words:
            assert importlib.util.find_spec(words[words.index("-m") + 1]), line
        for word in words:
            assert not FILE_WORD.fullmatch(word) or (ROOT / word).exists(), line


@pytest.mark.parametrize(
    ("title", "read", "write"), [("both", True, True), ("read", True, False), ("write", False, True)]
)
def test_option_table_is_that_of_the_code(title: str, read: bool, write: bool) -> None:
    known = [
        [option.name, option.brokers, option.default or "-", option.meaning]
        for option in OPTIONS
        if (option.read, option.write) == (read, write)
    ]
    assert table_after(f"<!-- options: {title} -->") == known


def test_file_map_names_only_what_exists() -> None:
    places = [place for place, _ in table_after("## File map\n")]
    assert places
    assert [place for place in places if not (ROOT / place).exists()] == []


def table_after(mark: str) -> list[list[str]]:
    """The rows below the head of the first table after ``mark``; a cell that is all code is bare."""
    text = README.read_text("utf-8")
    table = text[text.index(mark) + len(mark) :].lstrip().partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()]
    return [[re.sub(r"^`([^`]*)`$", r"\1", cell) for cell in row] for row in rows[2:]]
