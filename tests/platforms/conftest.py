"""The zip of the package, as ``make zip`` makes it."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def package_zip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The zip for ``--py-files`` and ``addArtifacts``."""
    target = tmp_path_factory.mktemp("zip") / "spark_kafkawire.zip"
    runpy.run_path(str(ROOT / ".ci" / "zip_package.py"))["main"](target)
    return target
