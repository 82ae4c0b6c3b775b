"""The versions of Apache Kafka that tests of this folder run against, but for those that name their own; and
skips of the tests that a machine cannot run which has no Java, or where Maven does not get the jars. Judges:
small Java programs with a broker's own classes, and its descriptions of the protocol's messages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from spark_kafkawire.broker.cluster import find_java
from spark_kafkawire.errors import OptionError
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.protocol.api import Api
from tests.support.certificates import Certificates

from .apache_kafka import ApacheKafka
from .jars import (
    NoJars,
    apicurio_archive,
    avro_jars,
    broker_jars,
    connector_jars,
    hdfs_jars,
    older_spark,
    table_format_jars,
    tiered_storage_jar,
)

NEWEST: Final = "4.4.0"
#: The last release of the 3 line, which still serves clients from Kafka 0.8 on, and the newest one.
VERSIONS: Final = ("3.9.1", NEWEST)
#: The brokers of ``make interop``; ``make nightly`` has all others.
EACH_COMMIT: Final = ("0.10.2.2", "2.8.2", NEWEST)
#: Three brokers of each version, which keep all on all of them.
_REPLICATED: Final = [
    pytest.param((version, 3), id=f"three {version}", marks=pytest.mark.nightly) for version in VERSIONS
]
#: The newest brokers whose tests of tiered storage Maven has, and an earlier one that answers a Fetch with
#: cold records of one partition only.
TIERED: Final = ("3.9.1", "4.3.0")
#: Marks tests that run against those, too.
replicated = pytest.mark.parametrize("kafka", [*VERSIONS, *_REPLICATED], indirect=True, scope="session")
#: Marks tests that run against those of one version, too, for what they cost.
newest_replicated = pytest.mark.parametrize(
    "kafka", [*VERSIONS, _REPLICATED[-1]], indirect=True, scope="session"
)
#: Marks tests for which one of them is enough, for what they cost.
newest = pytest.mark.parametrize("kafka", [NEWEST], indirect=True, scope="session")
#: Marks tests that a release between them runs, too: what a read and a write need of a broker.
also_between = pytest.mark.parametrize("kafka", ["3.9.1", "4.1.1", NEWEST], indirect=True, scope="session")


def is_nightly(value: object) -> bool:
    """True if a parameter of a test is a version of brokers that ``make interop`` does not start."""
    if isinstance(value, tuple):
        return is_nightly(value[0])
    is_version = isinstance(value, str) and re.fullmatch(r"(\d+\.){2,3}\d+", value) is not None
    return is_version and value not in EACH_COMMIT


def needs_broker(version: str) -> None:
    """Skip the test where the machine cannot run a broker of this version."""
    _needs_java_and(lambda: broker_jars(version))


def needed_connector() -> list[str]:
    """The jars of Spark's own connector; skips the test where there are none."""
    return _needed(connector_jars)


def answers_of(module: str, questions: Any, folder: Path, timeout_s: float) -> Any:
    """Answers of a module of this folder, as a program whose Spark has jars of its own: a jar is only taken
    when a JVM starts. It gets the questions as JSON, and the path of a file for the answers."""
    path = folder / "answers.json"
    done = subprocess.run(
        [sys.executable, "-m", f"tests.interop.{module}", str(path)],
        cwd=Path(__file__).parents[2],
        input=json.dumps(questions),
        env={**os.environ, "TZ": "UTC"},  # years 1 and 9999 are in Python's range in this zone only
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(path.read_text())


def needed_avro() -> list[str]:
    """The jars of Spark's functions for Avro; skips the test where there are none."""
    return _needed(avro_jars)


def needed_table_formats() -> tuple[list[str], str]:
    """The jars of Delta and Iceberg, and the folder of a Spark for them; skips the test without them."""
    jars = _needed(table_format_jars)
    [spark] = _needed(lambda: [older_spark()])
    return jars, spark


def needed_tiered_storage(version: str) -> str:
    """The jar of a tiered storage for a broker; skips the test without it."""
    [jar] = _needed(lambda: [tiered_storage_jar(version)])
    return jar


def _needed(get: Callable[[], list[Path]]) -> list[str]:
    try:
        return [str(jar) for jar in get()]
    except NoJars as reason:
        pytest.skip(str(reason))


def needs_registry() -> None:
    """Skip the test where the machine cannot run a schema registry."""
    _needs_java_and(apicurio_archive)


def needs_hdfs() -> None:
    """Skip the test where the machine cannot run HDFS."""
    _needs_java_and(hdfs_jars)


def _needs_java_and(get: Callable[[], Path]) -> None:
    try:
        find_java()
        get()
    except (OptionError, NoJars) as reason:
        pytest.skip(str(reason))


def needed_confluent() -> Any:
    """The module of Confluent's serializers; skips the test without the packages that they need."""
    return pytest.importorskip("tests.interop.confluent", exc_type=ImportError)


def broker_with(settings: Sequence[str]) -> Any:
    """A fixture of a module: brokers of its own with these lines of properties, one of each version."""

    @pytest.fixture(scope="module", params=VERSIONS)
    def broker(
        request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
    ) -> Iterator[ApacheKafka]:
        needs_broker(request.param)
        folder = tmp_path_factory.mktemp(f"own-{request.param}")
        with ApacheKafka(request.param, folder, certificates, settings=settings) as own:
            yield own
            POOL.close_idle()

    return broker


#: What a program prints, given its arguments and its input.
Judge = Callable[..., str]


def judge_of(program: str, version: str) -> Judge:
    """A program of this folder with the jars of one broker; skips where it cannot run."""
    try:
        java, jars = find_java(), broker_jars(version)
    except (OptionError, NoJars) as reason:
        pytest.skip(str(reason))
    modules = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=True).stdout
    if "jdk.compiler" not in modules:
        pytest.skip(f"{java} is a Java without a compiler")

    def run(*arguments: str, data: str = "") -> str:
        source = Path(__file__).with_name(program)
        command = [str(java), "-cp", f"{jars}/*", str(source), *arguments]
        done = subprocess.run(command, input=data, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def newest_version(api: Api, release: str) -> int:
    """The newest version of an API that a release describes and offers, an unstable one only on request; -1
    if the release does not know the API."""
    [jar] = broker_jars(release).glob(f"kafka-clients-{release}.jar")
    with zipfile.ZipFile(jar) as archive:
        name = f"common/message/{api.name}Request.json"
        if name not in archive.namelist():
            return -1
        description = archive.read(name).decode("utf-8")
    [newest] = re.findall(r'"validVersions": "(?:\d+-)?(\d+)"', description)
    return int(newest) - ('"latestVersionUnstable": true' in description)
