"""Drivers of streams into folders of Parquet are killed: each number is there once.

``KAFKAWIRE_TABLE_KILLS`` is how often ``make nightly`` does so. ``tests/interop/tables_killed.py`` has the
table formats.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.noida import NoidaBroker
from tests.support.short_and_long import short_and_long
from tests.support.table_kills import KILLS, kill_and_check

pytestmark = pytest.mark.timeout(1200 + 60 * KILLS)


@short_and_long("kills", short=1, long=KILLS)
def test_folders_have_each_number_once(
    kills: int, spark: SparkSession, noida: NoidaBroker, tmp_path: Path
) -> None:
    tables = {name: str(tmp_path / f"table-{name}") for name in ("one", "odd", "even")}
    kill_and_check(noida, tmp_path, "parquet", tables, kills, lambda table: spark.read.parquet(table))
