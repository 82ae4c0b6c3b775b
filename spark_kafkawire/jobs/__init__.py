"""The jobs themselves: a command line in ``spark_kafkawire.commands`` only parses arguments and calls these.

=============  ==================================================================================
``ingest``     topics into files, each message once
``publish``    rows of files to topics, with a state each row once
``offsets``    topics of a cluster and offsets of its groups; export and import of offsets
``migration``  logs of Kafka 0.7 into partitions of a modern cluster, each message once, verified
``spark``      shared code that needs Spark: session, tasks, stages, files of Hadoop
``shell``      shared code of the command line: arguments, progress, errors, summaries
``state``      shared code of state: files that are written in one step; locks
=============  ==================================================================================

A job imports nothing of another one. The docstring of its package says why its result is exact.
"""
