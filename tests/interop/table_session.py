"""A Spark with tables of Delta and Iceberg: the jars are in the variable ``TABLE_FORMATS``."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

_NAMES: Final = itertools.count()
_EXTENSIONS: Final = (
    "io.delta.sql.DeltaSparkSessionExtension",
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
)


def table_settings(folder: Path) -> dict[str, str]:
    """Settings of a session whose tables are in this folder."""
    return {
        "spark.jars": os.environ["TABLE_FORMATS"],
        "spark.sql.extensions": ",".join(_EXTENSIONS),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        # A stream has a session, and so a catalog, of its own.
        "spark.sql.catalog.ice.cache-enabled": "false",
        "spark.sql.catalog.ice.warehouse": str(folder / "iceberg"),
        "spark.sql.warehouse.dir": str(folder / "delta"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
    }


def new_table(session: SparkSession, form: str, columns: str) -> str:
    """A table of a format."""
    name = f"{'default' if form == 'delta' else 'ice.db'}.t{next(_NAMES)}"
    session.sql(f"CREATE TABLE {name} ({columns}) USING {form}")
    return name
