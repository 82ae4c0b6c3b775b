"""The work of the jobs: ``spark_kafkawire.commands`` has a command line for each.

The folder ``jobs`` of a checkout has scripts that start a command line, and examples. It is not installed.

================  ==================================================================================
``ingest``        topics into files, each message once
``publish``       rows of files to topics, with a state each row once
``offsets``       topics of a cluster and offsets of its groups; export and import of offsets
``migration``     logs of Kafka 0.7 into partitions of a modern cluster, each message once, verified
``stream_copy``   topics into topics or Parquet, batch after batch, as long as it runs
``checkpoints``   positions of streaming queries: shown, moved, prepared for the other connector
``transactions``  open transactions: shown, and those of an interrupted write ended
``spark``         shared code that needs Spark: session, stages, files of Hadoop
``command_line``  shared code of the command line: parser, streams, exit codes
``arguments``     shared code of arguments: a row for each, at the field of the options that it sets
``progress``      shared code of what a job shows: progress, summaries
``ending``        shared code of signals and failures
``state``         shared code of state: sealed files, positions, locks
``files``         shared code of files that are written in one step
================  ==================================================================================

A job imports nothing of another one. The docstring of its package or module says why its result is exact.
"""
