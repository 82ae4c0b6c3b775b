"""What the spark-submit jobs in ``jobs/`` are made of: each of those is arguments and calls of this.

=============  ==================================================================================
``ingest``     topics into files, each message once
``publish``    rows of files to topics, with a state each row once
``offsets``    what a cluster holds and where its groups stand; offsets out to files and back in
``migration``  logs of Kafka 0.7 into partitions of a modern cluster, each message once, verified
``spark``      what jobs share that runs in Spark: session, tasks, stages, files of Hadoop
``shell``      what they share of the command line: arguments, progress, errors, summaries
``state``      what they share of state: files that are written once, whole or not at all; locks
=============  ==================================================================================

A job imports nothing of another one. The head of its package tells how it is exact.
"""
