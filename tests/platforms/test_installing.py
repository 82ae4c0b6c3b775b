"""pip on platforms that bring a Spark: nothing of theirs changes, and reads, writes and streams work."""

from __future__ import annotations

import os
import shlex
import sys
import sysconfig
import textwrap
from pathlib import Path
from typing import Final

import pytest

from tests.support.installing import build_wheel, copy_package
from tests.support.noida import NoidaBroker, free_port
from tests.support.pages import blocks
from tests.support.runtimes import Runtime, runtimes

from .environments import DEADLINE_S, Environment, connect_server, foreign_variables, run_program

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(1200)]
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


@pytest.mark.parametrize("runtime", [each for each in runtimes() if each.is_supported], ids=str)
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
#: The port of the broker and the folder of the checkpoint that the page names.
PORT, FOLDER = "9092", "/data/"


def test_the_quickstart_runs_in_an_empty_environment(tmp_path: Path) -> None:
    install, start, jobs, stop = (block.text for block in blocks("sh") if block.page == PAGE)
    program = "".join(block.text for block in blocks("python") if block.page == PAGE)
    port = str(free_port())
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    copy_package(checkout)
    (checkout / "quickstart.py").write_text(program.replace(PORT, port).replace(FOLDER, f"{tmp_path}/"))
    started, stopped = start.replace(PORT, port), f"trap {shlex.quote(stop)} EXIT"
    ran = jobs.replace(PORT, port).replace(FOLDER, f"{tmp_path}/")
    script = "\n".join(("set -e", install, started, stopped, "python quickstart.py", ran))
    # The page's python3 is the one that runs this.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = foreign_variables() | {"PATH": path}
    done = run_program("bash", "-c", script, cwd=checkout, env=variables, deadline_s=3 * DEADLINE_S)
    assert "|partition|offset|" in done
    assert list((tmp_path / "quickstart").rglob("*.parquet"))
