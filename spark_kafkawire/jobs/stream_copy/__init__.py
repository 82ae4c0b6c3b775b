"""Topics to topics or into Parquet, batch after batch, for as long as the job runs.

It is one streaming query of Spark: where it stands is in its checkpoint, and what it promises is what
``docs/streaming.md`` says of streams. To what a query of one's own is the job adds options that are checked
before Spark starts, a consumer group that follows, an end after the running batch, and a summary.
"""
