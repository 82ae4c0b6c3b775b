"""A local Spark session whose workers run this Python."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES: Final = 2
#: Where the workers' Python finds what it loads before it forks them.
_PRELOADING: Final = Path(__file__).with_name("preloading")
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


def plain_spark(name: str, settings: Settings) -> SparkSession:
    """A session on two cores and loopback only, with these settings, too; all else is as users have it."""
    run_this_python()
    return _session(name, settings)


def local_spark(name: str, settings: Settings, home: str | None = None) -> SparkSession:
    """The same for tests: its Spark is in ``home``, and its Python workers are forked with all loaded."""
    run_this_python()
    before = os.environ.get("PYTHONPATH")  # another pyspark, where tests run one
    path = os.pathsep.join([str(_PRELOADING), *([before] if before else [])])
    os.environ |= {"SPARK_HOME": home or home_with_byte_code(), "PYTHONPATH": path}
    try:
        return _session(name, settings)
    finally:
        del os.environ["SPARK_HOME"], os.environ["PYTHONPATH"]
        if before is not None:
            os.environ["PYTHONPATH"] = before


def _session(name: str, settings: Settings) -> SparkSession:
    # Most tests need no Spark, and need not wait for its import.
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{CORES}]").appName(name)
    return builder.config(map={**_LOCAL, **settings}).getOrCreate()


@functools.cache
def home_with_byte_code() -> str:
    """pyspark's own folder without pyspark.zip, until this process ends.

    From the zip, which holds no byte code, workers take a second or more to import pyspark, from the
    folder beside it a third of that; and Spark gives the process of a stream ten seconds to start, whatever
    else the machine does.
    """
    import pyspark

    own, home = (Path(pyspark.__file__).parent, Path(tempfile.mkdtemp(prefix="kafkawire-spark-home-")))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for entry in own.iterdir():
        if entry.name != "python":
            (home / entry.name).symlink_to(entry)
    (home / "python" / "lib").mkdir(parents=True)
    for py4j in (own / "python" / "lib").glob("py4j-*.zip"):
        (home / "python" / "lib" / py4j.name).symlink_to(py4j)
    return str(home)
