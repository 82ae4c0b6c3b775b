"""Rows to topics; with a state directory each row once, however often runs are killed.

Kafka takes nothing back, and 0.7 does not even answer. So a run that finds an unfinished one reads
what the topic has got since that began, and writes the rows that are not there:

    begin    STATE/publication.json   how many rows for which topic, their checksum, and the cluster
    record   STATE/run-N.json         where all logs end that run N may write to
    settle   from the second run on: wait until the logs have not grown for a while
    write    all rows in the first run; later those that are not among the records since the first one
    compare  read the logs again: rows that are missing are written (a worker may be lost), and those
             that are there too often are told
    finish   STATE/done.json

Why no row is missing or doubled, wherever a run is killed:

- Nothing is sent before a run has recorded the ends of all logs that its tasks may write to, and a
  log is read from the first end that was recorded of it. So whatever runs have written is found.
- Tasks end only when their rows are where the next run finds them (acks=all; acks=verify in 0.7).
- Spark may run a task again, whose first attempt has written nobody knows what. Such a task writes
  nothing; the comparison tells what is missing, and the next round writes it.
- What a killed run had still under way is waited for: its executors end when they see that the driver
  is gone, and a 0.7 broker shows messages when it flushes them. What comes later than that, or an
  executor that goes on although nobody hears of it, cannot be held off. It can double rows, and
  the comparison then finds them.

Rows are compared by content (``difference``). So nobody else may write rows that are equal to
these meanwhile, and the log must keep what it got: a log that has lost its start is an error, and what
compaction takes out of one is not seen, and written again.
"""
