"""Log directories on each Spark version that this package supports, through Spark itself."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from spark_kafkawire.directories.checkpoints import META_PROPERTIES
from tests.support.golden import CORPUS, MANIFEST
from tests.support.log_folders import KILLED, KILLED_END, MARKERS, START_OFFSET

OFFSETS: Final = [offset for offset in range(START_OFFSET, KILLED_END) if offset not in MARKERS]


def test_spark_reads_a_path_a_list_of_paths_and_a_view(spark: SparkSession, tmp_path: Path) -> None:
    reader = spark.read.format("kafkawire")
    expected = OFFSETS
    found = reader.option("subscribe", "events").load(str(KILLED))
    assert [row.offset for row in found.select("offset").collect()] == expected
    other = shutil.copytree(KILLED, tmp_path / "other")
    meta = other / META_PROPERTIES
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
    both = spark.read.format("kafkawire").option("minPartitions", "3").load([str(KILLED), str(other)])
    assert both.rdd.getNumPartitions() >= 3
    assert sorted(row.offset for row in both.select("offset").collect()) == expected
    spark.sql(f"CREATE TEMPORARY VIEW directory USING kafkawire OPTIONS (path '{KILLED}')")
    [counted] = spark.sql("SELECT count(*) AS n, max(offset) AS last FROM directory").collect()
    assert (counted.n, counted.last) == (len(expected), expected[-1])
    old = spark.read.format("kafkawire").load([str(CORPUS / "broker0"), str(CORPUS / "broker1")])
    assert old.count() == sum(each["messages"] for each in MANIFEST)
