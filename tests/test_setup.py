"""The installed package, the import contracts, and the Java that `make` finds."""

from __future__ import annotations

import configparser
import json
import os
import re
import runpy
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Final

import pytest
import yaml
from packaging.specifiers import SpecifierSet

import spark_kafkawire
from spark_kafkawire.broker import EmbeddedCluster
from spark_kafkawire.commands import COMMANDS
from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.installing import (
    PACKAGE,
    build_sdist,
    build_wheel,
    copy_package,
    install_wheel,
    run,
)
from tests.support.noida import NoidaBroker
from tests.support.pages import links_of, pictures_of
from tests.support.runtimes import runtimes

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_sdist(tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"), sdist)


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(name))


def test_sdist_holds_what_the_wheel_is_built_from_the_documentation_and_no_tests(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = [member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()]
    files = {name for name in names if not name.startswith((f"{PACKAGE}/", f"{PACKAGE}.egg-info/"))}
    pages = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.*")}
    texts = {"CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md"}
    build = {"MANIFEST.in", "PKG-INFO", "pyproject.toml", "pyspark_kafkawire.py", "setup.cfg", "setup.py"}
    assert files == pages | texts | build


def test_wheel_holds_every_module_and_nothing_else(wheel: Path) -> None:
    kinds = (".py", ".css", ".js")
    files = [path for path in (ROOT / PACKAGE).rglob("*.*") if path.suffix in kinds]
    modules = {str(path.relative_to(ROOT)) for path in files}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == modules | {"pyspark_kafkawire.py", f"{PACKAGE}/py.typed"}


def test_the_version_of_the_package_is_that_of_its_wheel(wheel: Path) -> None:
    assert wheel.name.startswith(f"{PACKAGE}-{spark_kafkawire.__version__}-")


def test_the_wheel_has_a_bill_of_materials(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        [name] = [item for item in archive.namelist() if ".dist-info/sboms/" in item]
        bill = json.loads(archive.read(name))
    assert name.endswith(".cdx.json")
    component = bill["metadata"]["component"]
    assert component["purl"] == f"pkg:pypi/spark-kafkawire@{spark_kafkawire.__version__}"
    # What is copied from another project belongs here, beside its license.
    assert bill["components"] == []


def test_the_release_workflow_uses_what_is_there_and_publishes_only_the_version_of_its_tag() -> None:
    text = (ROOT / ".ci" / "release.yml").read_text("utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    steps = [step for job in jobs.values() for step in job["steps"]]
    targets = {
        word
        for step in steps
        for line in re.findall(r"^make (.*)", step.get("run", ""), re.M)
        for word in line.split()
    }
    assert targets == {"dist", "zip", ".venv/.docs"}
    assert all(
        re.search(rf"^({re.escape(item)}|\$\(VENV\)/{item[6:]}):", (ROOT / "Makefile").read_text(), re.M)
        for item in targets
    )
    assert [name for name, job in jobs.items() if "id-token" in job["permissions"]] == ["publish"]
    [check] = [step["run"] for step in steps if step.get("name") == "The tag is that of the version"]
    for tag, code in ((f"v{spark_kafkawire.__version__}", 0), ("v0.0.9", 1)):
        assert (
            subprocess.run(
                ["sh", "-c", check], cwd=ROOT, env=os.environ | {"GITHUB_REF_NAME": tag}
            ).returncode
            == code
        )


def test_make_zip_says_which_file_it_made(tmp_path: Path) -> None:
    target = tmp_path / "dist" / "package.zip"
    assert run(sys.executable, ROOT / ".ci" / "zip_package.py", target, cwd=ROOT).stdout == f"{target}\n"
    assert zipfile.is_zipfile(target)


def test_metadata_has_what_a_package_index_shows(metadata: Message) -> None:
    setup = setup_cfg()["metadata"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert not [item for item in metadata.get_all("Classifier", []) if item.startswith("License ::")]
    assert metadata["Keywords"].split(",") == setup["keywords"].split(", ")
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL", []))
    assert urls.keys() == {"Homepage", "Documentation", "Source", "Issues", "Changelog", "Security"}
    report = f"{urls['Source']}/security/advisories/new"
    assert report in (ROOT / "SECURITY.md").read_text("utf-8")
    for url in urls.values():
        file = url.removeprefix(urls["Source"]).partition("/blob/main/")[2]
        assert url.startswith(urls["Source"]), url
        assert not file or (ROOT / file).is_file(), url


def test_extras_that_messages_and_pages_name_are_there(metadata: Message) -> None:
    texts = [*(ROOT / "spark_kafkawire").rglob("*.py"), *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
    named = {name for path in texts for name in re.findall(r"spark-kafkawire\[(\w+)\]", path.read_text())}
    assert {"spark"} <= named <= set(metadata.get_all("Provides-Extra", []))


def test_links_of_the_description_are_absolute_and_lead_to_files_of_the_release(metadata: Message) -> None:
    """Pictures come from the files themselves, because a page of the repository is none."""
    [source] = [url for url in metadata.get_all("Project-URL", []) if url.startswith("Source, ")]
    address, version = source.removeprefix("Source, "), f"v{spark_kafkawire.__version__}"
    release = f"{address}/blob/{version}/"
    files = f"{address.replace('github.com', 'raw.githubusercontent.com')}/{version}/"
    payload = metadata.get_payload(decode=True)
    assert isinstance(payload, bytes)
    text = payload.decode()
    readme = (ROOT / "README.md").read_text("utf-8")
    assert text.replace(release, "").replace(files, "").strip() == readme.strip()
    pictures = pictures_of("README.md")
    relative = [link for link in links_of("README.md") if not link.startswith("https://")]
    assert text.count(f"]({release}") == len(relative) - len(pictures) > 20
    assert text.count(f'="{files}') == len(pictures) == 2
    assert re.findall(r'\]\((?!https://)|(?:src|srcset)="(?!https://)', text) == []


def test_the_conda_recipe_is_that_of_the_wheel(sdist: Path, metadata: Message) -> None:
    script = runpy.run_path(str(ROOT / ".ci" / "dist.py"))
    recipe = script["fill_recipe"](script["RECIPE"].read_text("utf-8"), metadata, sdist)
    assert "@" not in recipe
    assert f'\n  version: "{spark_kafkawire.__version__}"\n' in recipe
    run_section = recipe.partition("\n  run:\n")[2].partition("\n  #")[0]
    packages = [line.removeprefix("    - ") for line in run_section.splitlines()]
    wanted = re.findall(r"^[a-z].*$", setup_cfg()["options"]["install_requires"], re.MULTILINE)
    in_conda = [re.sub(r"^([\w-]+)", r"\1 ", item).replace("isal ", "python-isal ") for item in wanted]
    assert packages == ["python >=${{ python_min }}", *in_conda]
    build_system = (ROOT / "pyproject.toml").read_text("utf-8")
    assert re.findall(r"- setuptools (.*)", recipe) == re.findall(r'"setuptools([<>=].*?)"', build_system)


def test_the_versions_of_the_runtimes_that_the_pages_name_are_in_the_ranges() -> None:
    ranges = dict(
        re.findall(r"^([a-z][\w-]*)(.*)$", setup_cfg()["options"]["install_requires"], re.MULTILINE)
    )
    result = runtimes()
    assert {item.is_supported for item in result} == {True, False}
    changed = [
        (item.name, package, version)
        for item in result
        for package, version in item.versions.items()
        if version not in SpecifierSet(ranges[package])
    ]
    assert changed == []


def setup_cfg() -> configparser.ConfigParser:
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg", "utf-8")
    return settings


@pytest.mark.jvm
def test_an_installed_wheel_has_a_module_in_which_spark_finds_the_source(python: Path) -> None:
    result = "from pyspark_kafkawire import DefaultSource as source; print(source.name(), source.__module__)"
    reported = run(python, "-c", result, cwd=python.parent)
    assert reported.stdout.split() == ["kafkawire", f"{PACKAGE}.source.datasource"], reported.stdout


def test_an_installed_wheel_has_the_command_kafkawire(python: Path, tmp_path: Path) -> None:
    kafkawire = python.with_name("kafkawire")
    reported = run(kafkawire, "--help", cwd=tmp_path)
    assert reported.returncode == 0, reported.stdout
    assert all(f"\n  {name} " in reported.stdout for name in COMMANDS)
    assert run(python, "-m", PACKAGE, "--help", cwd=tmp_path).stdout == reported.stdout
    for name, command in COMMANDS.items():
        file = Path(run(kafkawire, "path", name, cwd=tmp_path).stdout.removesuffix("\n"))
        assert file.is_relative_to(python.parents[1])
        assert (file.name, file.is_file()) == (f"{command.module}.py", True)


def test_the_command_of_an_installed_wheel_shows_offsets(python: Path, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "t-0" / f"{0:020}.kafka"
    log.parent.mkdir(parents=True)
    log.write_bytes(spark_kafkawire.encode_message_set([b"value"]))
    with EmbeddedCluster(brokers=1, zookeeper=False, log_dirs=[log.parents[1]]) as cluster:
        words = ("--option", f"broker.list={cluster.broker_list}", "--topic", "t", "--json", "--quiet")
        done = run(python.with_name("kafkawire"), "offsets", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert json.loads(done.stdout)["bytes"] == log.stat().st_size


@pytest.mark.jvm
@pytest.mark.nightly  # make dist reads with the wheel
@pytest.mark.parametrize("is_submitted", [False, True])
def test_a_job_of_an_installed_wheel_runs_here_and_by_spark_submit(
    is_submitted: bool, python: Path, tmp_path: Path, noida: NoidaBroker
) -> None:
    topic, output = noida.create_topic(partitions=2), tmp_path / "out"
    option = f"kafka.bootstrap.servers={noida.bootstrap_servers}"
    words = ("--option", option, "--topic", topic, "--output", output, "--json", "--quiet")
    variables = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": str(ROOT / "jobs" / "conf")}

    librdkafka.produce(noida.bootstrap_servers, topic, [Record(b"value")])
    # No environment is activated: the command sees to it that Spark's workers run its own Python.
    command = ["env", "-u", "PYSPARK_PYTHON", str(python.with_name("kafkawire")), "ingest"]
    if is_submitted:
        file = run(python.with_name("kafkawire"), "path", "ingest", cwd=tmp_path).stdout.strip()
        command = [str(Path(sys.executable).with_name("spark-submit")), file]
        variables |= {"PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    done = run(*command, *words, cwd=tmp_path, **variables)
    assert done.returncode == 0, done.stdout
    [summary] = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    assert summary["messages"] == 1
    assert [path.name for path in output.glob("batch=*")] == ["batch=0"]


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


#: A contract, a module, and a line that breaks it there.
VIOLATIONS: Final = (
    ("layers", "protocol/primitives.py", "import spark_kafkawire.net"),
    ("layers", "source/worker.py", "import spark_kafkawire.broker"),
    ("layers", "unheard_of.py", ""),
    ("layers", "jobs/offsets/run.py", "import spark_kafkawire.commands"),
    ("v07", "cluster/v07/view.py", "import spark_kafkawire.cluster.modern.metadata"),
    ("modern", "records/batch/encoding.py", "import spark_kafkawire.records.message_set.encoding"),
    ("cluster", "cluster/unheard_of.py", ""),
    ("planner", "planner/stream.py", "from . import v07"),
    ("clients", "clients/reading/fetcher.py", "import spark_kafkawire.clients.writing.rows"),
    ("reading", "clients/reading/unheard_of.py", ""),
    (
        "writing",
        "clients/writing/v07/sender.py",
        "import spark_kafkawire.clients.writing.modern.batches",
    ),
    ("acyclic", "clients/writing/modern/batches.py", "from . import producer"),
    ("acyclic", "options/jaas.py", "from . import credentials"),
    ("acyclic", "source/worker.py", "from . import writer"),
    ("acyclic", "cluster/modern/metadata.py", "from . import cluster"),
    ("acyclic", "planner/ranges.py", "from . import batch"),
    ("acyclic", "protocol/schema.py", "from .modern import fetch"),
    ("acyclic", "jobs/publish/state.py", "from . import run"),
    ("acyclic", "broker/config.py", "from . import server"),
    ("logins", "net/logins/passwords.py", "from . import kerberos"),
    ("transactional", "clients/writing/modern/transactional/task.py", "from . import driver"),
    ("records", "records/legacy.py", "import spark_kafkawire.records.batch.encoding"),
    ("jobs", "jobs/offsets/report.py", "import spark_kafkawire.jobs.ingest.state"),
    ("jobs-pyspark", "jobs/migration/run.py", "import pyspark"),
    ("broker", "broker/config.py", "import spark_kafkawire.net"),
    ("pure", "protocol/primitives.py", "import time"),
    ("pure", "records/__init__.py", "import socket"),
    ("pure", "planner/ranges.py", "import random"),
    ("spark", "planner/batch.py", "import pyspark.sql"),
)


def test_each_import_contract_is_broken_by_what_it_forbids(tmp_path: Path) -> None:
    copy_package(tmp_path)
    for _, module, violation in VIOLATIONS:
        with open(tmp_path / PACKAGE / module, "a", encoding="utf-8") as source:
            source.write(f"\n{violation}\n")
    reported = lint_imports(tmp_path).partition("Broken contracts")[2]
    heads = [*re.finditer(r"\n\n([^\n]+)\n-{5,}\n", reported)]
    ends = [*(head.start() for head in heads[1:]), len(reported)]
    broken = {head[1]: reported[head.end() : end] for head, end in zip(heads, ends, strict=True)}
    for contract, module, violation in VIOLATIONS:
        place = f"{PACKAGE}/{module}".removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        said = (
            f"No cycles are allowed in {place.rpartition('.')[0]}." if contract == "acyclic" else f"{place} "
        )
        name = setup_cfg()[f"importlinter:contract:{contract}"]["name"]
        assert said in broken[name] or f"- {place}\n" in broken[name], (contract, module, violation)


def lint_imports(folder: Path) -> str:
    linter = Path(sys.executable).with_name("lint-imports")
    return run(linter, "--no-logo", "--no-cache", cwd=folder, COLUMNS="1000").stdout


def test_every_import_contract_of_setup_cfg_is_checked() -> None:
    count = sum(name.startswith("importlinter:contract:") for name in setup_cfg().sections())
    assert f"{count} kept, 0 broken" in lint_imports(ROOT)


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
    """`.ci/short_lived_java.py`: the Java in front of the tests' JVMs."""

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
        runpy.run_path(str(ROOT / ".ci" / "short_lived_java.py"))["write_wrapper"](home, java=java, **places)
        places["archive"].touch()
        return home

    def reported(self, home: Path, *arguments: str, **environment: str) -> str:
        """Arguments that its Java gets."""
        return run(home / "bin" / "java", *arguments, cwd=home, **environment).stdout

    def test_spark_finds_its_jars_first_and_in_the_archive_and_its_settings_last(self, home: Path) -> None:
        link, jars = home.parent / "link", home.parent / "jars"
        reported = self.reported(
            home, "-cp", f"/conf/:{link}/a.jar:{link}/*", "-Xmx1g", "Main", "two words", ""
        )
        archive = f"<-XX:SharedArchiveFile={home}/archive><-Xlog:cds*=off>"
        assert (
            reported == f"{self.QUICK}{archive}<-cp><{jars}/a.jar:{jars}/*:/conf/><-Xmx1g><Main><two words><>"
        )

    def test_other_class_paths_are_left_alone(self, home: Path) -> None:
        for path in ("/elsewhere/*", f"{home.parent}/jars/a.jar", "b.jar:/conf/"):
            assert self.reported(home, "-cp", path, "Main") == f"{self.QUICK}<-cp><{path}><Main>"

    def test_without_an_archive_there_are_the_options(self, home: Path) -> None:
        (home / "archive").unlink()
        jars = home.parent / "jars"
        reported = self.reported(home, "-Xmx1g", "-cp", f"{jars}/*", "Main")
        assert reported == f"{self.QUICK}<-Xmx1g><-cp><{jars}/a.jar:{jars}/*><Main>"

    def test_who_brings_an_archive_gets_no_other(self, home: Path) -> None:
        jars = home.parent / "jars"
        reported = self.reported(home, "-cp", f"{jars}/*", "-XX:SharedArchiveFile=mine", "Main")
        assert reported == f"{self.QUICK}<-cp><{jars}/a.jar:{jars}/*><-XX:SharedArchiveFile=mine><Main>"

    def test_java_runs_as_it_is_where_that_is_asked_for(self, home: Path) -> None:
        path = f"{home.parent}/jars/*"
        assert self.reported(home, "-cp", path, "Main", KAFKAWIRE_JAVA="plain") == f"<-cp><{path}><Main>"


def fake_java(home: Path, script: str) -> Path:
    """A Java home whose ``bin/java`` is a shell script."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return home


def java_home(wrapper_home: Path, **environment: str) -> str:
    """Output of `.ci/java_home.py`."""
    asked = run(sys.executable, ROOT / ".ci" / "java_home.py", wrapper_home, cwd=ROOT, **environment)
    assert asked.returncode == 0, asked.stdout
    return asked.stdout


class TestSparks:
    """`.ci/sparks.py`: the versions of Spark and Python that `make test-sparks` runs."""

    script = runpy.run_path(str(ROOT / ".ci" / "sparks.py"))

    def test_what_it_runs_is_there_and_is_what_the_package_is_for(self) -> None:
        environments = self.script["ENVIRONMENTS"]
        tests = {*self.script["SHORT"], *(path for item in environments for path in item.tests)}
        assert [path for path in tests if not (ROOT / path).exists()] == []
        setup = configparser.ConfigParser()
        setup.read(ROOT / "setup.cfg")
        pythons = {item.python for item in environments} - {None}
        assert pythons | {"3.11"} == set(re.findall(r"Python :: (3\.\d+)", setup["metadata"]["classifiers"]))

    def test_a_python_that_the_machine_lacks_is_left_out_with_the_reason(self, tmp_path: Path) -> None:
        environment = self.script["Environment"](None, "3.99", ())
        arguments = self.script["parse"]([str(tmp_path), "--short", "--", "-k", "nothing"])
        assert arguments.pytest == ["-k", "nothing"]
        assert self.script["run"](environment, arguments).startswith("skipped: no Python 3.99 in PATH")
        assert list(tmp_path.iterdir()) == []
