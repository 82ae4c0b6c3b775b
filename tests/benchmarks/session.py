"""The Spark session of a benchmark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from pyspark.sql import SparkSession

from tests.support.local_spark import plain_spark

from .ceilings import CountingDataSource, PrebuiltDataSource


@contextmanager
def spark_session(settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[SparkSession]:
    """A local session on two cores, as users have it, that knows the ceilings."""
    session = plain_spark("spark-kafkawire benchmarks", {"spark.driver.memory": "2g", **settings})
    try:
        session.dataSource.register(PrebuiltDataSource)
        session.dataSource.register(CountingDataSource)
        yield session
    finally:
        session.stop()
