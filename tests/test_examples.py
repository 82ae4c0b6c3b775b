"""Examples of the pages: their Python runs, and so do the notebook and the pipeline; jobs accept the
arguments of their examples; columns are those of the code."""

from __future__ import annotations

import importlib
import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.commands import COMMANDS
from spark_kafkawire.source.schema import HEADERS_FIELD, MODERN_SCHEMA, V07_SCHEMA
from tests.support import librdkafka
from tests.support.connect_server import default_connect_port
from tests.support.fake_registry import FakeRegistry
from tests.support.foreign import Record
from tests.support.golden import CORPUS
from tests.support.installing import run
from tests.support.log_folders import KILLED
from tests.support.noida import NoidaBroker
from tests.support.pages import DOCS, ROOT, Block, blocks, table_after, text_of

#: The ZooKeeper, the broker, the schema registry and the folder of the pages, and the modern topic that they
#: read.
ZOOKEEPER = "127.0.0.1:2181"
BOOTSTRAP_SERVERS = "127.0.0.1:9092"
REGISTRY = "http://127.0.0.1:8081"
FOLDER = "/data/"
#: The start of a reference to a variable. Spark's JVM, which plans, has none of those of the pages.
VARIABLE = "${env:"
TOPIC = "events"
PYTHON_BLOCKS = blocks("python")
JOB_COMMANDS = [
    pytest.param(block, words, id=str(block))
    for block in blocks("sh")
    for words in (shlex.split(command, comments=True) for command in block.commands)
    if words[:1] == ["spark-submit"] or (words[:1] == ["kafkawire"] and words[1] in COMMANDS)
]


@pytest.fixture
def modern() -> Iterator[NoidaBroker]:
    """A modern broker of a page's own, with the topic of all pages: each prints what it has written."""
    with NoidaBroker() as broker:
        broker.create_topic(partitions=2, name=TOPIC)
        records = [Record(b"value %d" % number, key=b"key", partition=number % 2) for number in range(60)]
        librdkafka.produce(broker.bootstrap_servers, TOPIC, records)
        yield broker


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """A schema registry of a page's own."""
    with FakeRegistry() as running:
        yield running


# docs/index.md has the block of README.md.
@pytest.mark.parametrize("page", sorted({block.page for block in PYTHON_BLOCKS} - {"docs/index.md"}))
def test_the_python_of_a_page_runs_from_its_top_to_its_end(
    page: str,
    spark: SparkSession,
    corpus: EmbeddedCluster,
    modern: NoidaBroker,
    registry: FakeRegistry,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A block of text right below a block of Python is its output."""
    places = {
        ZOOKEEPER: corpus.zookeeper_connect,
        BOOTSTRAP_SERVERS: modern.bootstrap_servers,
        REGISTRY: registry.url,
        f".{FOLDER}": f"{tmp_path}/",
        FOLDER: f"{tmp_path}/",
        VARIABLE: f"${{directory:{tmp_path / 'variables'}:",
    }
    (tmp_path / "variables").mkdir()
    for variable in re.findall(rf"{re.escape(VARIABLE)}(\w+)", text_of(page)):
        (tmp_path / "variables" / variable).write_text("a value of the environment", "utf-8")
    shutil.copytree(KILLED, tmp_path / "kafka-logs")
    shutil.copytree(CORPUS, tmp_path / "kafka-0.7-logs")
    namespace: dict[str, Any] = {"__name__": "__main__", "spark": spark}
    for block in PYTHON_BLOCKS:
        if block.page == page and block.needs is None:
            # Empty lines first, so that a traceback names the page's own lines.
            code = compile("\n" * (block.line - 1) + moved(block.text, places), ROOT / page, "exec")
            exec(code, namespace)
            printed = capsys.readouterr().out
            assert block.output is None or block.output.strip() == printed.strip(), block
    # The session is that of other tests, too.
    for table in spark.catalog.listTables():
        spark.catalog.dropTempView(table.name)


FIRST = ROOT / "jobs" / "first.py"


def test_first_program_is_a_file() -> None:
    first, again = (block for block in PYTHON_BLOCKS if block.page in ("README.md", "docs/index.md"))
    assert FIRST.read_text("utf-8").endswith(f'"""\n\n{first.text}')
    assert (again.text, again.output) == (first.text, first.output)
    assert first.text.count("\n") <= 15


@pytest.mark.nightly  # its text is a block of README.md, which runs
def test_first_program_runs_with_nothing_else(tmp_path: Path) -> None:
    [first] = [block for block in PYTHON_BLOCKS if block.page == "README.md"]
    assert subprocess.check_output([sys.executable, FIRST], cwd=tmp_path, text=True) == first.output


@pytest.mark.nightly
def test_the_pipeline_of_the_recipes_runs_and_goes_on(tmp_path: Path) -> None:
    """A second run adds what has come since."""
    [spec] = blocks("yaml")
    [definitions] = [block for block in PYTHON_BLOCKS if block.needs == "pipeline"]
    [command] = [
        shlex.split(command)
        for block in blocks("sh")
        for command in block.commands
        if command.startswith("spark-pipelines")
    ]
    (tmp_path / "transformations").mkdir()
    (tmp_path / "conf").mkdir()
    # A Python worker takes longer than Spark's 15 s to start where many processes share the cores.
    conf = "spark.python.authenticate.socketTimeout 120s\n"
    (tmp_path / "conf" / "spark-defaults.conf").write_text(conf, "utf-8")
    with NoidaBroker() as broker:
        places = {BOOTSTRAP_SERVERS: broker.bootstrap_servers, FOLDER: f"{tmp_path}/"}
        (tmp_path / "spark-pipeline.yml").write_text(moved(spec.text, places), "utf-8")
        (tmp_path / "transformations" / "orders.py").write_text(moved(definitions.text, places), "utf-8")
        broker.create_topic(partitions=2, name="orders")
        for number in (1, 2):
            orders = [
                Record(b'{"customer": "%c", "amount": 1.5}' % name, partition=name % 2) for name in b"aab"
            ]
            librdkafka.produce(broker.bootstrap_servers, "orders", orders)
            with default_connect_port():
                program = Path(sys.executable).with_name(command[0])
                ran = run(program, *command[1:], cwd=tmp_path, SPARK_CONF_DIR=str(tmp_path / "conf"))
            assert ran.returncode == 0, ran.stdout
            tables = tmp_path / "spark-warehouse"
            totals = sorted(map(tuple, (row.values() for row in rows_of(tables / "totals"))))
            assert totals == [("a", 3.0 * number), ("b", 1.5 * number)]
            assert len(rows_of(tables / "raw_orders")) == 3 * number
            copies = librdkafka.consume(broker.bootstrap_servers, "orders-copy")
            assert Counter(copy.value for copy in copies) == Counter(order.value for order in number * orders)


@pytest.mark.nightly
def test_the_pipeline_of_changes_is_one_that_spark_takes(tmp_path: Path) -> None:
    """There is no table format for it yet."""
    [spec] = blocks("yaml")
    [definitions] = [block for block in PYTHON_BLOCKS if block.needs == "auto-cdc"]
    (tmp_path / "transformations").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(moved(spec.text, {FOLDER: f"{tmp_path}/"}), "utf-8")
    (tmp_path / "transformations" / "orders.py").write_text(definitions.text, "utf-8")
    with default_connect_port():
        program = Path(sys.executable).with_name("spark-pipelines")
        ran = run(program, "dry-run", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout
    assert "Run is COMPLETED" in ran.stdout


def rows_of(table: Path) -> list[dict[str, Any]]:
    """The rows of a table of Spark's, from its files."""
    return [row for file in table.glob("*.parquet") for row in pq.read_table(file).to_pylist()]


#: A process that runs the cells of a notebook as Jupyter does.
CELLS = """
import json, sys
namespace = {"__name__": "__main__"}
for number, cell in enumerate(json.load(open(sys.argv[1]))["cells"]):
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), namespace)
print("ran all cells")
"""


def test_the_notebook_of_the_quickstart_is_made_from_its_page() -> None:
    made = runpy.run_path(str(ROOT / ".ci" / "notebook.py"))["notebook_of"]
    page, kept = (DOCS / "quickstart.md").read_text("utf-8"), (DOCS / "quickstart.ipynb").read_text("utf-8")
    assert kept == made(page), "docs/quickstart.ipynb is not what docs/quickstart.md gives: run make notebook"
    cells = ["".join(cell["source"]) for cell in json.loads(kept)["cells"] if cell["cell_type"] == "code"]
    assert cells == [block.text.rstrip() for block in PYTHON_BLOCKS if block.page == "docs/quickstart.md"]


@pytest.mark.nightly  # its cells are the blocks of the page, which run
def test_the_notebook_of_the_quickstart_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    with NoidaBroker() as broker:  # one that has not seen the page itself
        places = {BOOTSTRAP_SERVERS: broker.bootstrap_servers, FOLDER: f"{tmp_path}/"}
        notebook = tmp_path / "quickstart.ipynb"
        notebook.write_text(moved((DOCS / "quickstart.ipynb").read_text("utf-8"), places), "utf-8")
        done = run(sys.executable, "-c", CELLS, notebook, cwd=tmp_path)
    assert done.stdout.endswith("ran all cells\n"), done.stdout


def moved(text: str, places: dict[str, str]) -> str:
    """A block that speaks of other addresses and folders."""
    for shown, real in places.items():
        text = text.replace(shown, real)
    return text


@pytest.mark.parametrize(("block", "words"), JOB_COMMANDS)
def test_a_job_takes_the_arguments_that_it_is_shown_with(block: Block, words: list[str]) -> None:
    name, arguments = job_of(words)
    job = importlib.import_module(f"spark_kafkawire.commands.{name.replace('-', '_')}")
    assert "--help" in arguments or job.JOB.parser().parse_args(arguments), block


def job_of(words: list[str]) -> tuple[str, list[str]]:
    """The job that a command runs, and its arguments."""
    if words[0] == "kafkawire":
        return words[1], words[2:]
    for index, word in enumerate(words):
        if match := re.fullmatch(r"\$\(kafkawire path ([\w-]+)\)|jobs/(\w+)\.py", word):
            return match[1] or match[2], words[index + 1 :]
    raise AssertionError(f"no job in {words}")


@pytest.mark.parametrize(
    ("page", "mark", "fields"),
    [
        ("docs/columns.md", "<!-- schema: read -->", [*MODERN_SCHEMA, HEADERS_FIELD]),
        ("docs/columns.md", "<!-- schema: read 0.7 -->", list(V07_SCHEMA)),
    ],
)
def test_columns_are_those_of_the_code(page: str, mark: str, fields: list[Any]) -> None:
    shown = [(name, kind) for name, kind, _ in table_after(page, mark)]
    assert shown == [(field.name, field.dataType.simpleString()) for field in fields]
