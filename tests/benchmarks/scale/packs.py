"""``make bench-packs``: Spark reads many small partitions, with a task for each and with packs.

    python -m tests.benchmarks.scale.packs --partitions 10000

The table is Markdown: processor time of Spark and its Python processes, in one session. It exits with 1 where
packs take more than a fifth of the time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from pyspark.sql import SparkSession

from tests.support.fake_cluster import BATCH_RECORDS, TOPIC, FakeCluster

from ..processes import cpu_seconds, spent_seconds
from ..session import spark_session

_BROKERS: Final = 10
_WARM_PARTITIONS: Final = 40
#: The largest share of the time that packs may take.
_SHARE_MAX: Final = 0.2
#: Processes whose time does not count.
_OTHERS: Final = frozenset(("broker",))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure both; 1 if packs take too much time."""
    parser = argparse.ArgumentParser("make bench-packs", description="Measure packs of small partitions.")
    parser.add_argument("--partitions", type=int, default=10_000)
    partitions: int = parser.parse_args(arguments).partitions
    with spark_session() as spark:
        with FakeCluster(partitions=_WARM_PARTITIONS, brokers=2) as warm:
            for packs in (False, True) * 3:
                _spent(spark, warm, packs=packs)
        with FakeCluster(partitions=partitions, brokers=_BROKERS) as cluster:
            spent = {packs: _spent(spark, cluster, packs=packs) for packs in (True, False)}
    print(f"| {partitions:,} partitions of {BATCH_RECORDS} records | CPU s | jvm | Python |")
    print("|---|--:|--:|--:|")
    for packs, seconds in spent.items():
        total, jvm = sum(seconds.values()), seconds.get("jvm", 0.0)
        name = "packSmallPartitions=true" if packs else "a task for each"
        print(f"| {name} | {total:.2f} | {jvm:.2f} | {total - jvm:.2f} |")
    share = sum(spent[True].values()) / sum(spent[False].values())
    print(f"\npacks take {share:.2f} of the time of a task for each, at most {_SHARE_MAX}")
    return int(share > _SHARE_MAX)


def _spent(spark: SparkSession, cluster: FakeCluster, *, packs: bool) -> dict[str, float]:
    """CPU seconds of one read of all partitions, by role."""
    before = cpu_seconds()
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap,
        "subscribe": TOPIC,
        "packSmallPartitions": str(packs),
    }
    frame = spark.read.format("kafkawire").options(**options).load()
    count = frame.selectExpr("count(value)").collect()[0][0]
    assert count == cluster.partitions * BATCH_RECORDS
    spent = spent_seconds(before, cpu_seconds())
    return {role: seconds for role, seconds in spent.items() if role not in _OTHERS}


if __name__ == "__main__":
    sys.exit(main())
