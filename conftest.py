"""The one Spark session that all tests share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

# Workers run the Python of the tests, whatever `python3` is on PATH, and Spark is pyspark's own.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
os.environ.pop("SPARK_HOME", None)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session on two cores, loopback only, that finds ``kafkawire`` as users' sessions do."""
    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        # The faster way between the JVM and the Python workers; README recommends it.
        "spark.python.unix.domain.socket.enabled": "true",
    }
    builder = SparkSession.builder.master("local[2]").appName("spark-kafkawire tests").config(map=settings)
    session = builder.getOrCreate()
    yield session
    session.stop()
