"""One fresh session of Spark, and what its first and its later queries take: lines of JSON on stdout.

python -m tests.benchmarks.first_session FORMAT SERVERS
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from tests.interop.jars import connector_jars

from .nothing import ROWS, NothingDataSource
from .processes import cpu_seconds, spent_seconds

TOPIC, INTO = "first", "into"
#: Queries of each kind after the first one.
WARM: Final = 6
#: Rows of a write.
WRITTEN: Final = 10
#: As on a laptop, but for what would be printed between the figures.
_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
}


class Query(NamedTuple):
    """Times of one query: seconds, and CPU seconds of processes by role."""

    name: str
    seconds: float
    cpu_s: dict[str, float]
    load: float


def queries(format: str, servers: str) -> Iterator[Query]:
    """The first read, six more in the median, and the same of writes."""
    spark = _session()
    to_broker = {"kafka.bootstrap.servers": servers}
    earliest = {**to_broker, "subscribe": TOPIC, "startingOffsets": "earliest"}

    def read() -> None:
        rows = spark.read.format(format).options(**earliest).load().collect()
        assert len(rows) == ROWS, f"{len(rows)} rows, not {ROWS}"

    def write() -> None:
        rows = spark.range(WRITTEN).selectExpr("CAST(id AS STRING) AS value")
        rows.write.format(format).mode("append").options(**to_broker, topic=INTO).save()

    for name, run in (("read", read), ("write", write)):
        yield _taken(f"first {name}", run)
        repeated = [_taken(f"warm {name}", run) for _ in range(WARM)]
        # The first one again compiles, on both sides of the socket.
        yield repeated[-1]._replace(seconds=median(item.seconds for item in repeated[1:]))
    spark.stop()


def _session() -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings: dict[str, bool | float | int | str | None] = {
        **_SETTINGS,
        "spark.jars": ",".join(map(str, connector_jars())),
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    spark.dataSource.register(NothingDataSource)
    return spark


def _taken(name: str, run: Callable[[], None]) -> Query:
    load, before, began_s = os.getloadavg()[0], cpu_seconds(), perf_counter()
    run()
    seconds = perf_counter() - began_s
    return Query(name, seconds, spent_seconds(before, cpu_seconds()), load)


if __name__ == "__main__":
    for query in queries(*sys.argv[1:]):
        print(json.dumps(query._asdict()), flush=True)
