"""Jars come from Maven once, and what keeps them away is said in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from .jars import NoJars, broker_jars


@pytest.fixture
def search_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of PATH but the system's own, beside an empty cache."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "bin"


def _maven(folder: Path, script: str) -> None:
    program = folder / "mvn"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_without_maven_there_are_no_jars(search_path: Path) -> None:
    assert not any(search_path.iterdir())
    with pytest.raises(NoJars, match=r"mvn is not in PATH$"):
        broker_jars("3.9.1")


def test_what_maven_cannot_get_is_told_in_its_words(search_path: Path, tmp_path: Path) -> None:
    _maven(search_path, "echo '[ERROR] no route to the repository'; echo '[ERROR] help'; exit 1")
    with pytest.raises(
        NoJars, match=r"^Maven does not get Apache Kafka 3\.9\.1: no route to the repository$"
    ):
        broker_jars("3.9.1")
    assert list((tmp_path / "cache" / "spark-kafkawire-tests").iterdir()) == []


def test_maven_is_asked_once_for_a_version(search_path: Path) -> None:
    # The last argument is -DoutputDirectory=FOLDER.
    _maven(search_path, 'for last do :; done; /bin/mkdir "${last#*=}"; echo "$last" > "${last#*=}/a.jar"')
    folder = broker_jars("3.9.1")
    assert [path.name for path in folder.iterdir()] == ["a.jar"]
    (search_path / "mvn").unlink()
    assert broker_jars("3.9.1") == folder
    with pytest.raises(NoJars):
        broker_jars("4.1.1")
