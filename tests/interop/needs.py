"""Skips the tests that a machine cannot run which has no Java, or where Maven does not get the jars."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_kafkawire.broker.java import find_java
from spark_kafkawire.errors import OptionError

from .debian import NoPackages, Programs
from .jars import NoJars, apicurio_archive, avro_jars, broker_jars, connector_jars, hdfs_jars


def needs_broker(version: str) -> None:
    """Skip the test where the machine cannot run a broker of this version."""
    _needs_java_and(lambda: broker_jars(version))


def needed_connector() -> list[str]:
    """The jars of Spark's own connector; skips the test where there are none."""
    try:
        return [str(jar) for jar in connector_jars()]
    except NoJars as reason:
        pytest.skip(str(reason))


def needed_avro() -> list[str]:
    """The jars of Spark's functions for Avro; skips the test where there are none."""
    try:
        return [str(jar) for jar in avro_jars()]
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


def needed_programs(*packages: str) -> Programs:
    """Programs of Debian packages; skips the test where they cannot be had."""
    try:
        return Programs.of(*packages)
    except NoPackages as reason:
        pytest.skip(str(reason))


def needed_confluent() -> Any:
    """The module of Confluent's serializers; skips the test without the packages that they need."""
    return pytest.importorskip("tests.interop.confluent", exc_type=ImportError)
