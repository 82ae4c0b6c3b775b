"""The installed package, the import contracts, and the Java that `make` finds."""

from __future__ import annotations

import configparser
import os
import re
import runpy
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from spark_kafkawire.broker import EmbeddedCluster
from tests.support.installing import PACKAGE, build_wheel, copy_package, install_wheel, run

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_wheel_holds_every_module_and_nothing_else(wheel: Path) -> None:
    kinds = (".py", ".css", ".js")
    files = [path for path in (ROOT / PACKAGE).rglob("*.*") if path.suffix in kinds]
    modules = {str(path.relative_to(ROOT)) for path in files}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == modules | {"pyspark_kafkawire.py", f"{PACKAGE}/py.typed"}


WRITE_AND_READ = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
options = {"broker.list": sys.argv[1]}
rows = spark.createDataFrame([("found",)], "value string")
rows.write.format("kafkawire").mode("append").options(**options, topic="t").save()
print(spark.read.format("kafkawire").options(**options, subscribe="t").load().collect())
"""


@pytest.mark.jvm
def test_an_installed_wheel_has_a_module_in_which_spark_finds_the_source(python: Path) -> None:
    found = "from pyspark_kafkawire import DefaultSource as source; print(source.name(), source.__module__)"
    told = run(python, "-c", found, cwd=python.parent)
    assert told.stdout.split() == ["kafkawire", f"{PACKAGE}.source.datasource"], told.stdout


@pytest.mark.endurance
def test_spark_finds_the_source_of_an_installed_wheel_without_a_register_call(
    python: Path, tmp_path: Path
) -> None:
    with EmbeddedCluster(brokers=1, partitions=1, zookeeper=False) as cluster:
        environment = {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment["KAFKAWIRE_JAVA"] = "plain"  # here all is as users have it
        done = run(python, "-c", WRITE_AND_READ, cluster.broker_list, cwd=tmp_path, **environment)
    assert "value=b'found'" in done.stdout, done.stdout


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a new environment with the wheel in it, which comes before this checkout."""
    folder = tmp_path_factory.mktemp("installed")
    python = make_venv(folder / "venv", wheel)
    where = run(python, "-c", f"import {PACKAGE}; print({PACKAGE}.__file__)", cwd=folder)
    assert where.stdout.startswith(str(folder)), where.stdout
    return python


def make_venv(folder: Path, wheel: Path) -> Path:
    """A new environment with the wheel in it; its Python. All else is seen through a path entry.

    An entry in a ``.pth`` file only extends ``sys.path``: the ``.pth`` file that leads from this
    environment to the checkout is not read again, so the wheel is the only ``spark_kafkawire``.
    """
    python = install_wheel(folder, wheel)
    site_packages = next(folder.glob("lib/python*/site-packages"))
    (site_packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.mark.parametrize(
    ("contract", "module", "violation"),
    [
        ("layers", "protocol/primitives.py", "import spark_kafkawire.net"),
        ("layers", "source/partition.py", "import spark_kafkawire.broker"),
        ("layers", "unheard_of.py", ""),
        ("v07", "cluster/v07/probe.py", "import spark_kafkawire.cluster.modern.metadata"),
        ("modern", "records/batch/encoding.py", "import spark_kafkawire.records.message_set.encoding"),
        ("cluster", "cluster/unheard_of.py", ""),
        ("clients", "clients/reading/fetcher.py", "import spark_kafkawire.clients.writing.rows"),
        ("reading", "clients/reading/unheard_of.py", ""),
        ("writing", "clients/writing/v07/rows.py", "import spark_kafkawire.clients.writing.modern.batches"),
        ("records", "records/legacy/encoding.py", "import spark_kafkawire.records.batch.encoding"),
        ("jobs", "jobs/offsets/wording.py", "import spark_kafkawire.jobs.ingest.plan"),
        ("jobs-pyspark", "jobs/migration/run.py", "import pyspark"),
        ("broker", "broker/config.py", "import spark_kafkawire.net"),
        ("pure", "protocol/primitives.py", "import time"),
        ("pure", "records/__init__.py", "import socket"),
        ("pure", "planner/ranges.py", "import random"),
        ("spark", "planner/batch.py", "import pyspark.sql"),
    ],
)
def test_import_contract_is_broken_by(contract: str, module: str, violation: str, tmp_path: Path) -> None:
    copy_package(tmp_path)
    assert check_contract(contract, tmp_path).returncode == 0

    with open(tmp_path / PACKAGE / module, "a", encoding="utf-8") as source:
        source.write(f"\n{violation}\n")
    broken = check_contract(contract, tmp_path)
    assert broken.returncode == 1, broken.stdout
    assert "0 kept, 1 broken" in broken.stdout


def check_contract(contract: str, folder: Path) -> subprocess.CompletedProcess[str]:
    linter = Path(sys.executable).with_name("lint-imports")
    return run(linter, "--no-logo", "--no-cache", "--config", "setup.cfg", "--contract", contract, cwd=folder)


def test_every_import_contract_of_setup_cfg_is_checked() -> None:
    checked = run(Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache", cwd=ROOT)
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    count = sum(name.startswith("importlinter:contract:") for name in settings.sections())
    assert f"{count} kept, 0 broken" in checked.stdout


class TestJavaHome:
    """`.ci/java_home.py`: which Java Spark starts with."""

    def test_the_java_of_java_home_is_kept(self, tmp_path: Path) -> None:
        home = fake_java(tmp_path / "jdk", "echo 'openjdk version \"21.0.1\"' >&2")
        assert java_home(tmp_path, JAVA_HOME=str(home)) == f"{home}\n"

    def test_the_java_of_path_is_used_where_java_home_is_too_old(self, tmp_path: Path) -> None:
        old = fake_java(tmp_path / "old", "echo 'java version \"1.8.0_402\"' >&2")
        new = fake_java(tmp_path / "new", "echo 'openjdk version \"17.0.15\"' >&2")
        assert java_home(tmp_path, JAVA_HOME=str(old), PATH=f"{new}/bin:{os.environ['PATH']}") == "\n"

    def test_a_java_without_the_vector_module_runs_without_that_argument(self, tmp_path: Path) -> None:
        complain = 'case "$*" in *incubator*) exit 1;; -version) echo \'openjdk version "25"\' >&2;; esac'
        home = fake_java(tmp_path / "jre", complain + "\nprintf '<%s>' \"$@\"")
        assert java_home(tmp_path / "wrapper", JAVA_HOME=str(home)) == f"{tmp_path / 'wrapper'}\n"
        arguments = ("-cp", "a b/*", "--add-modules=jdk.incubator.vector", "Main", "", "--x=$HOME")
        ran = run(tmp_path / "wrapper" / "bin" / "java", *arguments, cwd=tmp_path)
        assert ran.stdout == "<-cp><a b/*><Main><><--x=$HOME>"


class TestBriefJava:
    """`.ci/brief_java.py`: the Java in front of the tests' JVMs."""

    QUICK = "<-XX:TieredStopAtLevel=1><-XX:+UseSerialGC>"

    @pytest.fixture
    def home(self, tmp_path: Path) -> Path:
        """One whose Java prints its arguments, and which has an archive; `link` leads to its jars."""
        (tmp_path / "jars").mkdir()
        (tmp_path / "link").symlink_to("jars")
        home = tmp_path / "brief"
        places = {
            "jars": tmp_path / "jars",
            "first": tmp_path / "jars" / "a.jar",
            "archive": home / "archive",
        }
        java = fake_java(tmp_path / "jdk", "printf '<%s>' \"$@\"") / "bin" / "java"
        runpy.run_path(str(ROOT / ".ci" / "brief_java.py"))["write_wrapper"](home, java=java, **places)
        places["archive"].touch()
        return home

    def told(self, home: Path, *arguments: str, **environment: str) -> str:
        """What its Java is told."""
        return run(home / "bin" / "java", *arguments, cwd=home, **environment).stdout

    def test_spark_finds_its_jars_first_and_in_the_archive_and_its_settings_last(self, home: Path) -> None:
        link, jars = home.parent / "link", home.parent / "jars"
        told = self.told(home, "-cp", f"/conf/:{link}/a.jar:{link}/*", "-Xmx1g", "Main", "two words", "")
        archive = f"<-XX:SharedArchiveFile={home}/archive><-Xlog:cds*=off>"
        assert told == f"{self.QUICK}{archive}<-cp><{jars}/a.jar:{jars}/*:/conf/><-Xmx1g><Main><two words><>"

    def test_other_class_paths_are_left_alone(self, home: Path) -> None:
        for path in ("/elsewhere/*", f"{home.parent}/jars/a.jar", "b.jar:/conf/"):
            assert self.told(home, "-cp", path, "Main") == f"{self.QUICK}<-cp><{path}><Main>"

    def test_without_an_archive_there_are_the_options(self, home: Path) -> None:
        (home / "archive").unlink()
        jars = home.parent / "jars"
        told = self.told(home, "-Xmx1g", "-cp", f"{jars}/*", "Main")
        assert told == f"{self.QUICK}<-Xmx1g><-cp><{jars}/a.jar:{jars}/*><Main>"

    def test_who_brings_an_archive_gets_no_other(self, home: Path) -> None:
        jars = home.parent / "jars"
        told = self.told(home, "-cp", f"{jars}/*", "-XX:SharedArchiveFile=mine", "Main")
        assert told == f"{self.QUICK}<-cp><{jars}/a.jar:{jars}/*><-XX:SharedArchiveFile=mine><Main>"

    def test_java_runs_as_it_is_where_that_is_asked_for(self, home: Path) -> None:
        path = f"{home.parent}/jars/*"
        assert self.told(home, "-cp", path, "Main", KAFKAWIRE_JAVA="plain") == f"<-cp><{path}><Main>"


def fake_java(home: Path, script: str) -> Path:
    """A Java home whose ``bin/java`` is a shell script."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return home


def java_home(wrapper_home: Path, **environment: str) -> str:
    """What `.ci/java_home.py` prints."""
    asked = run(sys.executable, ROOT / ".ci" / "java_home.py", wrapper_home, cwd=ROOT, **environment)
    assert asked.returncode == 0, asked.stdout
    return asked.stdout


class TestSparks:
    """`.ci/sparks.py`: the versions of Spark and Python that `make test-sparks` runs."""

    script = runpy.run_path(str(ROOT / ".ci" / "sparks.py"))

    def test_what_it_runs_is_there_and_is_what_the_package_is_for(self) -> None:
        environments = self.script["ENVIRONMENTS"]
        tests = {*self.script["SHORT"], *(path for each in environments for path in each.tests)}
        assert [path for path in tests if not (ROOT / path).exists()] == []
        setup = configparser.ConfigParser()
        setup.read(ROOT / "setup.cfg")
        pythons = {each.python for each in environments} - {None}
        assert pythons | {"3.11"} == set(re.findall(r"Python :: (3\.\d+)", setup["metadata"]["classifiers"]))

    def test_a_python_that_the_machine_lacks_is_left_out_with_the_reason(self, tmp_path: Path) -> None:
        environment = self.script["Environment"](None, "3.99", ())
        arguments = self.script["parse"]([str(tmp_path), "--short", "--", "-k", "nothing"])
        assert arguments.pytest == ["-k", "nothing"]
        assert self.script["run"](environment, arguments).startswith("skipped: no Python 3.99 in PATH")
        assert list(tmp_path.iterdir()) == []
