"""Code that jobs share and that needs Spark."""

from spark_kafkawire import source  # noqa: F401  # Explains a missing pyspark.
