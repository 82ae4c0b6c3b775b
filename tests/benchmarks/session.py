"""The Spark session of a benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tests.support.local_spark import local_spark

from .ceilings import CountingDataSource, PrebuiltDataSource


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """A local session on two cores that knows the ceilings."""
    session = local_spark("spark-kafkawire benchmarks", {"spark.driver.memory": "2g"})
    try:
        session.dataSource.register(PrebuiltDataSource)
        session.dataSource.register(CountingDataSource)
        yield session
    finally:
        session.stop()
