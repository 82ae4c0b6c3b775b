"""Rows of the Parquet files that a stream has written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def stored(folder: Path) -> list[dict[str, Any]]:
    """The rows of the files that Spark's sink has committed, in the order of their batches."""
    names: dict[int, list[str]] = {}
    for file in (folder / "out" / "_spark_metadata").glob("[0-9]*"):
        batch, _, compact = file.name.partition(".")
        paths = [json.loads(line)["path"] for line in file.read_text().splitlines()[1:]]
        if compact:
            names = {at: found for at, found in names.items() if at > int(batch)}
        names[int(batch)] = paths
    compacts = [
        int(file.name.partition(".")[0]) for file in (folder / "out/_spark_metadata").glob("*.compact")
    ]
    names = {at: paths for at, paths in names.items() if at >= max(compacts, default=-1)}
    files = [path.removeprefix("file://") for at in sorted(names) for path in names[at]]
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
