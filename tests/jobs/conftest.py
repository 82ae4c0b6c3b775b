"""Where the tests of ingest read from and write to."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.jobs.ingest.output import OutputOptions

_NUMBERS: Final = itertools.count()


@pytest.fixture
def topic() -> str:
    """A topic's name that no other test has; the test creates it."""
    return f"ingest-{next(_NUMBERS)}"


@pytest.fixture
def output(tmp_path: Path) -> OutputOptions:
    """Parquet in a folder that is not there yet."""
    return OutputOptions(str(tmp_path / "out"))
