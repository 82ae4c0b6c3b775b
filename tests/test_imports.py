"""Imports of each step of a query: Spark runs each step in a new process, and a first query waits for all of
them."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.protocol.modern import API_HOMES
from tests.support.noida import NoidaBroker

ROOT: Final = Path(__file__).parents[1]
#: Far more than a step takes, seconds.
DEADLINE_S: Final = 180.0

#: Where a modern cluster's query finds what it sends: of groups, what brokers before ApiVersions are asked.
SENT: Final = {
    *("negotiation", "describe_groups", "metadata", "list_offsets"),
    *("fetch", "produce", "init_producer_id"),
}
#: What no step of such a query imports: what asks or sends in the ways of 0.7, the client of ZooKeeper
#: first; the jobs and their tables; what compiles kernels, before there are rows that repay it; what encrypts
#: and logs in; what reads Java's patterns; what is for typed keys and values; and the messages of requests
#: that are not sent.
NOWHERE: Final = (
    "kazoo",
    "rich",
    "numba",
    "llvmlite",
    "http.client",
    "ssl",
    "html",
    "difflib",
    "spark_kafkawire.cluster.v07",
    "spark_kafkawire.clients.reading.v07",
    "spark_kafkawire.clients.reading.proposal",
    "spark_kafkawire.clients.writing.v07",
    "spark_kafkawire.protocol.v07",
    "spark_kafkawire.protocol.proposal",
    "prometheus_client",
    "openlineage",
    "spark_kafkawire.metrics",
    "spark_kafkawire.lineage",
    "spark_kafkawire.source.query_plans",
    "spark_kafkawire.jobs",
    "spark_kafkawire.broker",
    "spark_kafkawire.net.logins",
    "spark_kafkawire.net.sasl",
    "spark_kafkawire.net.tls",
    "spark_kafkawire.options.credentials",
    "spark_kafkawire.options.java_pattern",
    "spark_kafkawire.options.registry_settings",
    "spark_kafkawire.registry",
    "spark_kafkawire.values.avro",
    "spark_kafkawire.values.registry_frame",
    "spark_kafkawire.planner.schemas",
    "spark_kafkawire.clients.reading.typed_values",
    "spark_kafkawire.cluster.modern.groups",
    "spark_kafkawire.cluster.modern.group_offsets",
    *(f"spark_kafkawire.protocol.modern.{home}" for home in sorted({*API_HOMES.values()} - SENT)),
)
#: The messages that carry records, and what names a producer.
FETCHES: Final = ("spark_kafkawire.protocol.modern.fetch",)
PRODUCES: Final = ("spark_kafkawire.protocol.modern.produce",)
ARRAYS: Final = ("numpy", "pyarrow", "pandas")
READING: Final = ("spark_kafkawire.planner", "spark_kafkawire.clients.reading")
WRITING: Final = ("spark_kafkawire.clients.writing",)


@dataclass(frozen=True, slots=True)
class Step:
    """Work of one Spark process: the pickles that it is ``handed``, the ``code``, the pickle that
    it ``hands`` on.

    ``without`` are modules that it does not import besides those of ``NOWHERE``.
    """

    code: str
    handed: tuple[str, ...]
    hands: str
    without: tuple[str, ...]


#: In their order; a topic is written before it is read.
STEPS: Final[Mapping[str, Step]] = {
    "look-up": Step(
        "from pyspark_kafkawire import DefaultSource as kind",
        (),
        "kind",
        (*ARRAYS, "spark_kafkawire.options", "spark_kafkawire.errors"),
    ),
    "planning a write": Step(
        "planned = kind(options).writer(StructType([StructField('value', BinaryType())]), False)",
        ("kind",),
        "planned",
        (
            *ARRAYS,
            *READING,
            *FETCHES,
            *PRODUCES,
            "spark_kafkawire.clients.writing.partitioner",
            "spark_kafkawire.clients.writing.modern.producer",
        ),
    ),
    # Spark makes an Arrow array of the message, and pyarrow imports pandas for that: here it is no matter.
    "writing": Step(
        "import pyarrow; rows = pyarrow.RecordBatch.from_pydict({'value': [b'v']})\n"
        "message = planned.write(iter([rows]))",
        ("planned",),
        "message",
        (*READING, *FETCHES),
    ),
    "committing": Step(
        "committed = planned.commit([message])",
        ("planned", "message"),
        "committed",
        (
            *ARRAYS,
            *READING,
            "spark_kafkawire.options",
            "spark_kafkawire.net",
            "spark_kafkawire.protocol.modern",
        ),
    ),
    "schema": Step(
        "source = kind(options); schema = source.schema()",
        ("kind",),
        "source",
        (*ARRAYS, *READING, *WRITING, *FETCHES, *PRODUCES, "spark_kafkawire.cluster"),
    ),
    # Spark itself imports pyarrow here, and that numpy.
    "planning a read": Step(
        "reader = source.reader(source.schema()); planned = reader, reader.partitions()",
        ("source",),
        "planned",
        (
            "pandas",
            "pyarrow.compute",
            "spark_kafkawire.clients.reading.fetcher",
            "spark_kafkawire.records.record_log",
            *WRITING,
            *FETCHES,
            *PRODUCES,
        ),
    ),
    "reading": Step(
        "reader, partitions = planned\n"
        "rows = sum(batch.num_rows for each in partitions for batch in reader.read(each))\n"
        "assert rows == 1",
        ("planned",),
        "rows",
        ("pandas", "pyarrow.compute", "spark_kafkawire.planner", *WRITING, *PRODUCES),
    ),
}
#: The process of a step: code, what is handed and handed on, the folder of both, the options.
PROCESS: Final = """
import json, pickle, sys
for name in ("kazoo", "numba", "rich"):  # an installation without them reads and writes modern Kafka
    sys.modules[name] = None
from pathlib import Path
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import BinaryType, StructField, StructType

code, handed, hands, folder, options = json.loads(sys.argv[1])
names = {"options": options, "StructType": StructType, "StructField": StructField, "BinaryType": BinaryType}
names |= {name: pickle.loads(Path(folder, name).read_bytes()) for name in handed}
exec(code, names)
Path(folder, hands).write_bytes(pickle.dumps(names[hands]))
print(json.dumps([name for name, module in sys.modules.items() if module is not None]))
"""


@pytest.fixture(scope="module")
def imported(noida: NoidaBroker, tmp_path_factory: pytest.TempPathFactory) -> dict[str, frozenset[str]]:
    """The modules that the process of each step holds in the end."""
    topic, folder = noida.create_topic(partitions=1), tmp_path_factory.mktemp("handed")
    servers = {"kafka.bootstrap.servers": noida.bootstrap_servers}
    reading, writing = {**servers, "subscribe": topic}, {**servers, "topic": topic}
    result = {}
    for name, step in STEPS.items():
        options = writing if name == "planning a write" else reading
        arguments = json.dumps([step.code, step.handed, step.hands, str(folder), options])
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PROCESS, arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 0, f"{name}: {done.stderr}"
        result[name] = frozenset(json.loads(done.stdout))
    return result


def test_an_import_on_windows_says_what_to_use_instead() -> None:
    code = "import sys; sys.platform = 'win32'; import spark_kafkawire"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE_S)
    assert ran.stderr.splitlines()[-1] == "ImportError: Windows is not supported: use WSL or Spark Connect"


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_a_step_imports_only_what_it_needs(imported: dict[str, frozenset[str]], name: str) -> None:
    spared = (*NOWHERE, *STEPS[name].without)
    assert not {module for module in imported[name] for item in spared if f"{module}.".startswith(f"{item}.")}


def test_a_read_of_07_imports_no_fetch_of_modern_kafka() -> None:
    code = (
        "import sys\n"
        "from spark_kafkawire.clients.reading import fetcher, pack, proposal, v07\n"
        "print([name for name in sys.modules if name.startswith(('spark_kafkawire.clients.reading.modern', "
        "'spark_kafkawire.protocol.modern.fetch', 'spark_kafkawire.protocol.modern.produce'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize(
    "missing",
    [
        "import pyspark.sql.datasource as api; del api.DataSourceArrowWriter",
        "sys.modules['pyspark.sql.datasource'] = None",
    ],
    ids=["databricks-15", "spark-3"],
)
def test_an_import_with_an_older_pyspark_says_which_is_needed(missing: str) -> None:
    program = f"""
import sys, pyspark
{missing}
pyspark.__version__ = "3.5.0"
try:
    from pyspark_kafkawire import DefaultSource
except ImportError as error:
    print(error)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == (
        "spark-kafkawire needs Spark 4.0 or later, or Databricks 16.4 or later, and this is pyspark 3.5.0 "
        "without pyspark.sql.datasource.DataSourceArrowWriter: upgrade it\n"
    )


@pytest.mark.slow
def test_what_is_spared_is_there_to_be_imported() -> None:
    """A name that was moved would be spared for ever."""
    spared = {name for step in STEPS.values() for name in (*NOWHERE, *step.without)}
    command = f"import importlib\nfor name in {sorted(spared)}: importlib.import_module(name)"
    done = subprocess.run(
        [sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_relative_imports_name_neighbours_of_the_folder_or_of_the_one_above() -> None:
    """From further up a name that counts dots does not say where the module is."""
    far = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in (ROOT / "spark_kafkawire").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level > 2
    ]
    assert not far
