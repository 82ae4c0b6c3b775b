"""A Spark on this machine alone, whose workers run this Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES: Final = 2
Settings = Mapping[str, bool | float | int | str | None]
_LOCAL: Final[Settings] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # The faster way between the JVM and the Python workers; docs/reading-and-writing.md recommends it.
    "spark.python.unix.domain.socket.enabled": "true",
}


def run_this_python() -> None:
    """Let each Spark that is started from here run this Python, whatever is on PATH, and be pyspark's own."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.pop("SPARK_HOME", None)


def local_spark(name: str, settings: Settings) -> SparkSession:
    """A session on two cores and loopback only, with these settings, too."""
    # Most tests need no Spark, and need not wait for its import.
    from pyspark.sql import SparkSession

    run_this_python()
    builder = SparkSession.builder.master(f"local[{CORES}]").appName(name)
    return builder.config(map={**_LOCAL, **settings}).getOrCreate()
