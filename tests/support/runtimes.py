"""The runtimes of docs/platforms.md: the versions that platforms bring.

Source of those of Databricks: github.com/pietern/databricks-environments, ``constraints.txt`` of
``15.4.x-scala2.12``, ``16.4.x-scala2.12``, ``17.3.x-scala2.13`` and ``serverless-v4``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PAGE: Final = Path(__file__).parents[2] / "docs" / "platforms.md"


@dataclass(frozen=True, slots=True)
class Runtime:
    """A row of the table: a name, versions by package, and whether the package runs there."""

    name: str
    versions: Mapping[str, str]
    is_supported: bool

    def __str__(self) -> str:
        return self.name


def runtimes() -> list[Runtime]:
    """All rows of the table."""
    section = _PAGE.read_text("utf-8").partition("\n## Runtimes\n")[2].partition("\n## ")[0]
    table = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    [_, *packages, _], *rows = table
    return [
        Runtime(name, dict(zip(packages, versions, strict=True)), supported.startswith("yes"))
        for name, *versions, supported in rows
    ]
