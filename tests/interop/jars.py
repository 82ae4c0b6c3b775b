"""The jars of Apache Kafka's broker, resolved by Maven once and kept in the user's cache folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zlib
from pathlib import Path
from typing import Final

POM: Final = Path(__file__).with_name("pom.xml")
#: Some 50 MB for each version, from a cold cache. Below what pytest allows a test in all.
MAVEN_TIMEOUT_S: Final = 180.0


class NoJars(Exception):
    """Why there are no jars of a broker on this machine, in one line."""


def broker_jars(version: str) -> Path:
    """The folder of a broker's jars and all that they need.

    Raises ``NoJars`` where they are not there, and Maven is missing or cannot get them.
    """
    folder = _cache() / f"apache-kafka-{version}-{zlib.crc32(POM.read_bytes()):08x}"
    if not folder.is_dir():
        _resolve(version, folder)
    return folder


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home, "spark-kafkawire-tests")


def _resolve(version: str, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NoJars(f"Apache Kafka {version} is got with Maven: mvn is not in PATH")
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Complete or not there at all, also when two runs begin at once.
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        command = [maven, "--batch-mode", "--quiet", "--no-transfer-progress", "--file", str(POM)]
        command += ["dependency:copy-dependencies", "-DincludeScope=runtime"]
        command += [f"-Dkafka.version={version}", f"-Dscala.version={_scala(version)}"]
        command += [f"-DoutputDirectory={temporary}/jars"]
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S
            )
        except subprocess.TimeoutExpired:
            raise NoJars(f"Maven did not get Apache Kafka {version} in {MAVEN_TIMEOUT_S:g} s") from None
        if done.returncode != 0:
            raise NoJars(f"Maven does not get Apache Kafka {version}: {_reason(done.stdout)}")
        Path(temporary, "jars").rename(folder)


def _scala(version: str) -> str:
    """The Scala that a broker's jar is for: the newest that all releases of its time have."""
    return {"0": "2.11", "1": "2.12", "2": "2.12"}.get(version.split(".")[0], "2.13")


def _reason(output: str) -> str:
    lines = [line for line in output.splitlines() if line.startswith("[ERROR]")]
    return (lines or ["it says no reason"])[0].removeprefix("[ERROR]").strip()
