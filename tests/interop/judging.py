"""Judgements of a broker's own jars: their classes, called by small Java programs that are run from source,
and their descriptions of the protocol's messages."""

from __future__ import annotations

import re
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_kafkawire.broker.java import find_java
from spark_kafkawire.errors import OptionError
from spark_kafkawire.protocol.api import Api

from .jars import NoJars, broker_jars

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
