"""The first program of README: write a topic, read it, and count its rows.

    python jobs/first.py

It needs Java and the package with Spark. Its broker is one of the package, in Python.
"""

from pyspark.sql import SparkSession

from spark_kafkawire.broker import EmbeddedCluster

spark = SparkSession.builder.getOrCreate()
with EmbeddedCluster(brokers=1, partitions=1, zookeeper=False) as cluster:  # a broker to try with
    kafka = {"broker.list": cluster.broker_list}  # yours: {"kafka.bootstrap.servers": "HOST:9092"}
    orders = spark.range(1000).selectExpr("concat('order ', id) AS value").coalesce(1)
    orders.write.format("kafkawire").mode("append").options(**kafka, topic="orders").save()
    rows = spark.read.format("kafkawire").options(**kafka, subscribe="orders").load()
    rows.selectExpr("CAST(value AS STRING)", "topic", "partition", "offset").show(3)
    print(rows.count(), "rows")
