"""The one Spark session that all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.support.local_spark import local_spark, run_this_python

# Also for the tests that start a Spark in a process of its own.
run_this_python()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session on two cores, loopback only, that finds ``kafkawire`` as users' sessions do."""
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }
    session = local_spark("spark-kafkawire tests", settings)
    yield session
    session.stop()
