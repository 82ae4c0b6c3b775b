"""The jars of Apache Kafka's broker, of Spark's connector and its Avro, and of table formats: Maven gets them
once a user. A Spark for these formats: pip gets it."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

_BROKER: Final = Path(__file__).with_name("pom.xml")
_CONNECTOR: Final = Path(__file__).with_name("connector.xml")
_AVRO: Final = Path(__file__).with_name("avro.xml")
_HDFS: Final = Path(__file__).with_name("hdfs.xml")
_DEBEZIUM: Final = Path(__file__).with_name("debezium.xml")
_TABLE_FORMATS: Final = Path(__file__).with_name("table_formats.xml")
#: The newest Spark with which both formats work: Delta 4.1.0 calls a constructor of Spark that 4.1.2 changed,
#: where it reads a checkpoint of a table without ``_last_checkpoint``, as a killed driver may leave it.
_SPARK_OF_FORMATS: Final = "4.1.1"
#: Later releases than 3.0 need Java 21.
_APICURIO: Final = "io.apicurio:apicurio-registry-app:3.0.9:tar.gz:all"
#: Some 50 MB for each version, from a cold cache. Below what pytest allows a test in all.
MAVEN_TIMEOUT_S: Final = 180.0


class NoJars(Exception):
    """Why there are no such jars on this machine, in one line."""


def broker_jars(version: str) -> Path:
    """The folder of a broker's jars and all that they need.

    Raises ``NoJars`` where they are not there, and Maven is missing or cannot get them.
    """
    settings = (f"-Dkafka.version={version}", f"-Dscala.version={_scala(version)}")
    return _jars(_BROKER, f"Apache Kafka {version}", settings)


def connector_jars() -> list[Path]:
    """The jars that make ``format("kafka")`` work in a PySpark. Raises ``NoJars``."""
    return sorted(_jars(_CONNECTOR, "Spark's Kafka connector").glob("*.jar"))


def avro_jars() -> list[Path]:
    """The jars that make ``from_avro`` work in a PySpark. Raises ``NoJars``."""
    return sorted(_jars(_AVRO, "Spark's functions for Avro").glob("*.jar"))


def hdfs_jars() -> Path:
    """The folder of the jars of Hadoop's cluster for tests, 110 MB. Raises ``NoJars``."""
    return _jars(_HDFS, "Hadoop's HDFS")


def debezium_jars() -> Path:
    """The folder of the jars of Debezium's engine for PostgreSQL. Raises ``NoJars``."""
    return _jars(_DEBEZIUM, "Debezium")


def table_format_jars() -> list[Path]:
    """The jars of Delta and Iceberg for ``older_spark``. Raises ``NoJars``."""
    return sorted(_jars(_TABLE_FORMATS, "Delta and Iceberg").glob("*.jar"))


def older_spark() -> Path:
    """A folder with the pyspark that table formats are there for, for PYTHONPATH. Raises ``NoJars``."""
    what = f"pyspark=={_SPARK_OF_FORMATS}"

    def install(folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), what]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise NoJars(f"pip did not get {what} in {MAVEN_TIMEOUT_S:g} s") from None
        if done.returncode != 0:
            raise NoJars(f"pip does not get {what}: {done.stderr[-200:]}")

    return kept(f"pyspark-{_SPARK_OF_FORMATS}", install)


def apicurio_archive() -> Path:
    """The program of Apicurio Registry, 109 MB, as a tar file. Raises ``NoJars``."""
    # Not every mirror has the parent of its descriptor, which later versions of the plugin ask for.
    goal = ["org.apache.maven.plugins:maven-dependency-plugin:2.8:copy", f"-Dartifact={_APICURIO}"]
    [archive] = _kept("Apicurio Registry", _APICURIO.encode(), goal).glob("*.tar.gz")
    return archive


def tiered_storage_jar(version: str) -> Path:
    """Kafka's tests of its storage, which have a tiered storage in a folder. Raises ``NoJars``."""
    artifact = f"org.apache.kafka:kafka-storage:{version}:jar:test"
    goal = ["org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy", f"-Dartifact={artifact}"]
    [jar] = _kept(f"Tests of the storage of Kafka {version}", artifact.encode(), goal).glob("*.jar")
    return jar


def _jars(pom: Path, what: str, settings: Sequence[str] = ()) -> Path:
    goal = ["--file", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime", *settings]
    return _kept(what, pom.read_bytes(), goal)


def _kept(what: str, version: bytes, goal: Sequence[str]) -> Path:
    """The folder of what Maven copies."""
    name = re.sub(r"[^a-z0-9.]+", "-", what.lower())
    return kept(f"{name}-{zlib.crc32(version):08x}", lambda folder: _resolve(goal, what, folder))


def kept(name: str, get: Callable[[Path], None]) -> Path:
    """A folder of this user's that is there already, or that ``get`` makes now, in one process at a time:
    Maven's own cache takes no more. It is complete or not there at all."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(home, "spark-kafkawire-tests", name)
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder.parent, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
                get(made := Path(temporary, "made"))
                made.rename(folder)
    finally:
        os.close(lock)
    return folder


def _resolve(goal: Sequence[str], what: str, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NoJars(f"{what} is got with Maven: mvn is not in PATH")
    command = [
        maven,
        "--batch-mode",
        "--quiet",
        "--no-transfer-progress",
        *goal,
        f"-DoutputDirectory={folder}",
    ]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise NoJars(f"Maven did not get {what} in {MAVEN_TIMEOUT_S:g} s") from None
    if done.returncode != 0:
        raise NoJars(f"Maven does not get {what}: {_reason(done.stdout)}")


def _scala(version: str) -> str:
    """The Scala that a broker's jar is for: the newest that all releases of its time have."""
    return {"0": "2.11", "1": "2.12", "2": "2.12"}.get(version.split(".")[0], "2.13")


def _reason(output: str) -> str:
    lines = [line for line in output.splitlines() if line.startswith("[ERROR]")]
    return (lines or ["it says no reason"])[0].removeprefix("[ERROR]").strip()
