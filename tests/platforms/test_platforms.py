"""pip in virtual environments as users' platforms have them, which bring a Spark: nothing of theirs
changes, and reads, writes and streams work. Then Sail, a Spark without a JVM: what works, and what not."""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import shlex
import subprocess
import sys
import sysconfig
import textwrap
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.installing import build_wheel, copy_package, run
from tests.support.noida import NoidaBroker, free_port
from tests.support.pages import blocks
from tests.support.runtimes import Runtime, runtimes

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(1200)]
#: Far more than a program of these tests takes, seconds.
DEADLINE_S: Final = 300.0
#: What leads Python or Spark to this checkout begins so.
_OWN_VARIABLES: Final = ("PYTHON", "PYSPARK_", "SPARK_", "VIRTUAL_ENV")


class Environment:
    """An empty virtual environment in ``folder`` with ``packages`` in it."""

    def __init__(self, folder: Path, *packages: str | Path) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.folder = folder
        self.python = folder / "bin" / "python"
        if packages:
            self.install(*packages)

    def install(self, *packages: str | Path) -> None:
        """``pip install`` of packages or wheels, as a user would."""
        done = self.pip("install", "--quiet", *packages)
        assert done.returncode == 0, done.stdout

    def pip(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """A finished pip of this process for this environment."""
        return run(sys.executable, "-m", "pip", "--python", self.python, *words, cwd=self.folder)

    def versions(self) -> dict[str, str]:
        """The installed distributions and their versions."""
        reported = subprocess.run(
            [sys.executable, "-m", "pip", "--python", self.python, "list", "--format", "json"],
            capture_output=True,
            text=True,
            check=True,
        )
        return {item["name"].lower(): item["version"] for item in json.loads(reported.stdout)}

    def files(self, package: str) -> dict[str, str]:
        """The digest of each file of an installed package but its byte code."""
        [root] = self.folder.glob(f"lib/python*/site-packages/{package}")
        result = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc")
        return {str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in result}

    def run(self, code: str, *words: str, **environment: str) -> str:
        """The standard output of a Python program that must end well.

        It is a file: pyspark-client takes the client of a program of ``python -c`` for a doctest.
        """
        program = self.folder / "program.py"
        program.write_text(code)
        return run_program(self.python, program, *words, cwd=self.folder, env=clean(self) | environment)


def run_program(
    *command: str | Path, cwd: Path, env: Mapping[str, str], deadline_s: float = DEADLINE_S
) -> str:
    """The standard output of a command that must end well."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=deadline_s)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"[-6000:]
    return done.stdout


def foreign_variables() -> dict[str, str]:
    """The variables of a process that knows nothing of this checkout and its environment."""
    left = {name: value for name, value in os.environ.items() if not name.startswith(_OWN_VARIABLES)}
    return left | {"SPARK_LOCAL_IP": "127.0.0.1", "KAFKAWIRE_JAVA": "plain"}


def clean(environment: Environment) -> dict[str, str]:
    """The variables of a process in an environment that was not activated: nothing leads to this checkout."""
    own = {"PYSPARK_PYTHON": str(environment.python), "PYSPARK_DRIVER_PYTHON": str(environment.python)}
    return foreign_variables() | own


_SERVER: Final = """
import sys
from pyspark.sql import SparkSession
settings = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "1",
}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
service = getattr(getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$"), "MODULE$")
print(service.localPort(), flush=True)
sys.stdin.read()
"""


@contextmanager
def connect_server(environment: Environment, **variables: str) -> Iterator[str]:
    """A server of Spark Connect with an environment's Python, on loopback; the address for ``remote``."""
    settings: Mapping[str, str] = clean(environment) | variables
    server = subprocess.Popen(
        [environment.python, "-c", _SERVER],
        cwd=environment.folder,
        env=settings,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        assert port, "the server of Spark Connect did not start"
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.communicate(timeout=DEADLINE_S)  # closes its standard input, and waits for its end


ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def package_zip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The zip for ``--py-files`` and ``addArtifacts``."""
    target = tmp_path_factory.mktemp("zip") / "spark_kafkawire.zip"
    runpy.run_path(str(ROOT / ".ci" / "zip_package.py"))["main"](target)
    return target


#: The Spark whose Python API is nearest to that of the runtimes in docs/platforms.md.
SPARK: Final = "4.0.5"
CLIENT: Final = "pyspark-client==4.2.0"
#: pyspark-client asks for no upper bound, and warns of pandas 3.
PANDAS: Final = "pandas<3"
BATCH: Final = """
import sys
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
servers, topic, master = sys.argv[1:4]
builder = SparkSession.builder.config("spark.sql.shuffle.partitions", "1")
builder = builder.remote(master) if master.startswith("sc:") else builder.master(master)
spark = builder.getOrCreate()
options = {"kafka.bootstrap.servers": servers}
rows = spark.range(20).selectExpr("CAST(id AS STRING) AS value")
rows.write.format("kafkawire").mode("append").options(**options, topic=topic).save()
found = spark.read.format("kafkawire").options(**options, subscribe=topic).load()
print("read", found.select("value").distinct().count())
"""
STREAM: Final = """
copy, checkpoint, retry_timeout_s = sys.argv[-3:]
stream = spark.readStream.format("kafkawire").options(**options, subscribe=topic, startingOffsets="earliest")
writer = stream.load().select("value").writeStream.format("kafkawire").options(**options, topic=copy)
writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
while True:
    try:
        assert writer.start().awaitTermination(float(retry_timeout_s)), "the query did not end"
        break
    except StreamingQueryException as error:
        # Spark gives the process of a stream ten seconds to start, whatever else the machine does.
        if "waiting for the Python worker to connect back" not in str(error):
            raise
copied = spark.read.format("kafkawire").options(**options, subscribe=copy).load()
print("copied", copied.select("value").distinct().count())
"""
#: The package as an artifact of the session alone.
ARTIFACT: Final = BATCH.replace(
    "options = {",
    "package = sys.argv[4]\nsys.path.insert(0, package)\nspark.addArtifacts(package, pyfile=True)\n"
    "from spark_kafkawire import KafkaWireDataSource\nspark.dataSource.register(KafkaWireDataSource)\n"
    "options = {",
)
#: Where Spark finds no package in artifacts: the process that plans a stream.
REFUSED_STREAM: Final = (
    f"try:\n{textwrap.indent(STREAM, '    ')}except StreamingQueryException as error:\n"
    """    print("No module named 'spark_kafkawire'" in str(error))\n"""
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """A client of Spark Connect without the package."""
    return Environment(tmp_path_factory.mktemp("client") / "venv", CLIENT, PANDAS)


def bare_server(folder: Path) -> Environment:
    """Spark with Spark Connect and the requirements of the package, without the package."""
    environment = Environment(folder)
    [site_packages] = environment.folder.glob("lib/python*/site-packages")
    # A path entry does not read the .pth files there: this checkout's installation is not found.
    (site_packages / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    code = "import importlib.util as util; print(util.find_spec('spark_kafkawire'))"
    assert environment.run(code) == "None\n"
    return environment


@pytest.mark.parametrize("runtime", [item for item in runtimes() if item.is_supported], ids=str)
def test_a_platforms_own_versions_stay_as_they_are(
    runtime: Runtime, wheel: Path, tmp_path: Path, noida: NoidaBroker
) -> None:
    own = {"pyspark": SPARK, **runtime.versions}
    platform = Environment(tmp_path / "venv", *(f"{name}=={version}" for name, version in own.items()))
    before = platform.versions()
    platform.install(wheel)
    after = platform.versions()
    assert {name: after[name] for name in before} == before
    assert own.items() <= after.items()
    checked = platform.pip("check")
    assert checked.returncode == 0, checked.stdout
    reported = platform.run(BATCH, noida.bootstrap_servers, noida.create_topic(partitions=2), "local[2]")
    assert reported.split() == ["read", "20"]


def test_pip_overwrites_nothing_of_pyspark_client(wheel: Path, tmp_path: Path) -> None:
    both = Environment(tmp_path / "venv", CLIENT, PANDAS)
    before, versions = both.files("pyspark"), both.versions()
    both.install(wheel)
    assert both.files("pyspark") == before
    assert versions.items() <= both.versions().items()
    assert "pyspark" not in both.versions()
    checked = both.pip("check")
    assert checked.returncode == 0, checked.stdout
    assert (
        both.run("from spark_kafkawire import KafkaWireDataSource as kind; print(kind.name())")
        == "kafkawire\n"
    )


def test_an_artifact_of_the_session_is_enough_for_a_batch_and_for_no_stream(
    client: Environment, noida: NoidaBroker, package_zip: Path, tmp_path: Path
) -> None:
    with connect_server(bare_server(tmp_path / "venv")) as address:
        words = [noida.bootstrap_servers, noida.create_topic(partitions=2), address, str(package_zip)]
        words += [noida.create_topic(), str(tmp_path / "checkpoint"), str(DEADLINE_S / 2)]
        assert client.run(ARTIFACT + REFUSED_STREAM, *words).split() == ["read", "20", "True"]


def test_a_client_reads_writes_and_streams_with_the_package_on_the_server_only(
    wheel: Path, client: Environment, noida: NoidaBroker, tmp_path: Path
) -> None:
    server = bare_server(tmp_path / "venv")
    installed = server.pip("install", "--quiet", "--no-deps", wheel)
    assert installed.returncode == 0, installed.stdout
    topic, copy = noida.create_topic(partitions=2), noida.create_topic()
    with connect_server(server) as address:
        words = [noida.bootstrap_servers, topic, address, copy, str(tmp_path / "checkpoint")]
        reported = client.run(BATCH + STREAM, *words, str(DEADLINE_S / 2))
    assert reported.split() == ["read", "20", "copied", "20"]


def test_a_client_imports_what_needs_no_jvm(wheel: Path, tmp_path: Path) -> None:
    client = Environment(tmp_path / "venv", CLIENT, PANDAS)
    client.install(wheel)
    names = {"streaming": "GroupOffsets", "progress": "showing_progress", "metrics": "attach"}
    names |= {"groups": "GroupRead", "sinks": "append_once", "changes": "changes"}
    lines = [f"from spark_kafkawire.{module} import {name}" for module, name in names.items()]
    assert client.run("\n".join((*lines, "print('imported')"))) == "imported\n"


def test_an_import_without_pyspark_names_the_packages_that_bring_one(wheel: Path, tmp_path: Path) -> None:
    bare = Environment(tmp_path / "venv")
    bare.install(wheel)
    code = (
        "try:\n    from {module} import {name}\nexcept ModuleNotFoundError as error:\n"
        "    print(error.name, '|', error)"
    )
    for module, name in (
        ("spark_kafkawire", "KafkaWireDataSource"),
        ("pyspark_kafkawire", "DefaultSource"),
        ("spark_kafkawire.streaming", "GroupOffsets"),
        ("spark_kafkawire.groups", "GroupRead"),
        ("spark_kafkawire.progress", "showing_progress"),
    ):
        [line] = bare.run(code.format(module=module, name=name)).splitlines()
        assert line.startswith("pyspark | No module named 'pyspark': "), line
        for way in ("pip install pyspark for", "pyspark-client", "PYSPARK_PYTHON"):
            assert way in line


# --- docs/quickstart.md as it is written, for a user with a checkout, a Python and a Java ---

PAGE = "docs/quickstart.md"
#: The port of the broker that the page names.
PORT: Final = "9092"


def test_the_quickstart_runs_in_an_empty_environment(tmp_path: Path) -> None:
    install, start, jobs, stop = (block.text for block in blocks("sh") if block.page == PAGE)
    clone, enter, install = install.split("\n", 2)  # this checkout, without what it has installed
    assert (clone.split()[:2], enter.split()[0]) == (["git", "clone"], "cd")
    program = "".join(block.text for block in blocks("python") if block.page == PAGE)
    port = str(free_port())
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    copy_package(checkout)
    (checkout / "quickstart.py").write_text(program.replace(PORT, port))
    started, stopped = start.replace(PORT, port), f"trap {shlex.quote(stop)} EXIT"
    script = "\n".join(
        ("set -e", install, started, stopped, "python quickstart.py", jobs.replace(PORT, port))
    )
    # The page's python3 is the one that runs this.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = foreign_variables() | {"PATH": path}
    done = run_program("bash", "-c", script, cwd=checkout, env=variables, deadline_s=3 * DEADLINE_S)
    assert "|  0| order 0|        0|" in done
    assert list((checkout / "data" / "quickstart").rglob("*.parquet"))


SAIL: Final = "pysail==0.7.2"
#: pyspark-client 4.2 converts no timestamp without a time zone, and Sail passes none.
CLIENTS: Final = ("pyspark-client==4.1.3", "pyspark-client==4.2.0")

PROGRAM: Final = """
import sys
from pysail.spark import SparkConnectServer
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from spark_kafkawire import KafkaWireDataSource

servers, topic, copy, folder = sys.argv[1:]
server = SparkConnectServer("127.0.0.1", 0)
server.start(background=True)
spark = SparkSession.builder.remote(f"sc://127.0.0.1:{server.listening_address[1]}").getOrCreate()
spark.dataSource.register(KafkaWireDataSource)
options = {"kafka.bootstrap.servers": servers}

def read(topic, **more):
    return spark.read.format("kafkawire").options(**options, subscribe=topic, **more)

def write(rows, **more):
    rows.write.format("kafkawire").mode("append").options(**options, **more).save()

def stream(format, **more):
    source = spark.readStream.format("kafkawire").options(**options, subscribe=topic)
    rows = source.option("startingOffsets", "earliest").load().select("value")
    query = rows.writeStream.format(format).options(**more).start()
    assert query.awaitTermination(60)

def stream_to_topic():
    rows = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
    more = {"topic": copy, "checkpointLocation": folder}
    rows.writeStream.format("kafkawire").options(**options, **more).start()

def attempt(name, action):
    try:
        action()
    except PySparkException as error:
        print(name, "refused", str(error).replace("\\n", " "))
    else:
        print(name, "worked")

write(spark.range(20).selectExpr("CAST(id AS STRING) AS value"), topic=topic)
rows = read(topic).load()
print("schema", rows.schema.simpleString())
print("values", sorted(int(row.value) for row in rows.select("value").collect()) == list(range(20)))
print("projection", read(topic).schema("value binary, offset bigint").load().columns)
rows.createOrReplaceTempView("events")
print("filtered", spark.sql("SELECT * FROM events WHERE CAST(value AS STRING) LIKE '1%'").count())
write(rows.select("key", "value"), topic=copy)
print("copied", read(copy).load().count())
attempt("exactly-once", lambda: write(rows.select("value"), topic=copy, delivery="exactly-once"))
attempt("missing", lambda: read("no-such-topic").load().count())
view = "CREATE TEMPORARY VIEW source USING kafkawire OPTIONS (subscribe 'events')"
attempt("view", lambda: spark.sql(view))
attempt("readStream", lambda: stream("console"))
attempt("copy", lambda: stream("kafkawire", **options, topic=copy, checkpointLocation=folder))
attempt("writeStream", stream_to_topic)
print("unchanged", read(copy).load().count())
attempt("batch", lambda: stream("kafkawire", **options, topic=copy))
print("doubled", read(copy).load().count())
found = read(copy, includeHeaders="true").load()
columns = "CAST('k' AS BINARY) AS key, CAST('v' AS BINARY) AS value"
header = "ARRAY(NAMED_STRUCT('key', 'h', 'value', CAST('x' AS BINARY))) AS headers"
write(spark.sql(f"SELECT {columns}, {header}"), topic=copy)
[row] = found.where("headers IS NOT NULL").collect()
print("headers", [(header.key, bytes(header.value)) for header in row.headers])
print("later", found.count())
"""


@pytest.fixture(scope="module", params=CLIENTS)
def lines(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, noida: NoidaBroker
) -> Mapping[str, str]:
    """Lines that the program prints, by their first word."""
    folder = tmp_path_factory.mktemp("sail")
    sail = Environment(folder / "venv", SAIL, request.param, "pandas<3", build_wheel(folder))
    topics = noida.create_topic(partitions=2), noida.create_topic(partitions=2)
    reported = sail.run(PROGRAM, noida.bootstrap_servers, *topics, str(folder / "checkpoint"))
    return dict(line.split(" ", 1) for line in reported.splitlines())


def test_batches_are_read_and_written(lines: Mapping[str, str]) -> None:
    assert lines["schema"].startswith(
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
    )
    assert lines["values"] == "True"
    assert lines["projection"] == "['value', 'offset']"
    assert lines["filtered"] == "11"
    assert lines["copied"] == "20"
    assert lines["headers"] == "[('h', b'x')]"
    assert "no broker holds the topic no-such-topic" in lines["missing"]


def test_each_action_of_a_dataframe_reads_up_to_the_end_of_the_log(lines: Mapping[str, str]) -> None:
    assert lines["later"] == "41"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("exactly-once", "delivery=exactly-once needs tasks with numbers of their own"),
        ("view", "the data source path must be specified"),
        ("readStream", "only supports streaming data"),
        ("copy", "option checkpointLocation is for writeStream, not for a write"),
        ("writeStream", "unsupported extension node for streaming: PythonWriteNode"),
    ],
)
def test_what_does_not_work_is_refused(lines: Mapping[str, str], name: str, reason: str) -> None:
    assert lines[name].startswith("refused ")
    assert reason in lines[name]
    assert lines["unchanged"] == "20"


def test_a_stream_without_a_checkpoint_is_one_batch(lines: Mapping[str, str]) -> None:
    assert (lines["batch"], lines["doubled"]) == ("worked", "40")
