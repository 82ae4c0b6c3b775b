"""The Spark session of a benchmark."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from .ceilings import CountingDataSource, PrebuiltDataSource

CORES: Final = 2
_SETTINGS: Final[dict[str, bool | float | int | str | None]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.python.unix.domain.socket.enabled": "true",
}


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """A local session on two cores that knows the ceilings."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.pop("SPARK_HOME", None)
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("spark-kafkawire benchmarks")
    session = builder.config(map=_SETTINGS).getOrCreate()
    try:
        session.dataSource.register(PrebuiltDataSource)
        session.dataSource.register(CountingDataSource)
        yield session
    finally:
        session.stop()
