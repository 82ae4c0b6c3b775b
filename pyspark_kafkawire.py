"""Spark finds installed sources in top-level modules named ``pyspark_*``; this is ours."""

from spark_kafkawire import KafkaWireDataSource as DefaultSource

__all__ = ["DefaultSource"]
