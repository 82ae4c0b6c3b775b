"""Drivers of streams into tables of Delta and Iceberg are killed; ``test_table_formats.py`` runs these tests.

``KAFKAWIRE_TABLE_KILLS`` is how often, for each format.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.local_spark import plain_spark
from tests.support.noida import NoidaBroker
from tests.support.table_kills import KILLS, kill_and_check

from .table_session import table_settings

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(1200 + 60 * KILLS)]


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_tables_have_each_number_once(form: str, noida: NoidaBroker, tmp_path: Path) -> None:
    settings = table_settings(tmp_path)
    spark = plain_spark("tables", settings)
    # The catalog of Delta's session ends with it.
    location = "ice.db.{}" if form == "iceberg" else f"delta.`{tmp_path}/{{}}`"
    tables = {name: location.format(name) for name in ("one", "odd", "even")}
    try:
        for table in tables.values():
            spark.sql(f"CREATE TABLE {table} (n bigint) USING {form}")
        kill_and_check(noida, tmp_path, form, tables, KILLS, spark.table, settings)
    finally:
        spark.stop()
