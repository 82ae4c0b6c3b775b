"""Copies topics to topics or to Parquet, batch after batch, for as long as the job runs.

The job is one streaming query of Spark: its position is in its checkpoint, and its guarantees are those of
``docs/streaming.md``. Compared with a query in Python, the job checks options before Spark starts, commits to
a consumer group, ends after the running batch, and prints a summary.
"""
