"""Writes rows to topics; with a state directory each row once, however often runs are killed.

Kafka cannot undo a write, and 0.7 does not acknowledge one. So a run that finds an unfinished run reads the
messages that the topic got since then, and writes the missing rows:

    begin    STATE/publication.json   how many rows for which topic, their checksum, and the cluster
    record   STATE/run-N.json         ends of all partitions that run N may write to
    settle   from the second run on: wait until the partitions have not grown for a while
    write    all rows in the first run; later the rows that are missing in the records since then
    compare  read the partitions again: write missing rows (a worker may be lost), and report duplicates
    finish   STATE/done.json

No row is missing or duplicated, wherever a run is killed:

- Nothing is sent before a run has recorded the ends of all partitions that its tasks may write to, and each
  partition is read from the first recorded end. So all rows that earlier runs have written are found.
- A task ends only when the next run can find its rows (acks=all; acks=verify in 0.7).
- Spark may run a task again, and the rows that its first attempt wrote are unknown. Such a task writes
  nothing; the comparison finds the missing rows, and the next round writes them.
- A run waits for late messages of a killed one: executors end when they notice that the driver is gone, and a
  0.7 broker shows messages when it flushes them. Messages that come even later, or from an executor that
  continues without its driver, can duplicate rows. The comparison then finds the duplicates.

Rows are compared by content (``comparison``). So no other program may write equal rows meanwhile, and the
topic must keep all messages: a partition that lost its start is an error, and rows that compaction removes
are written again.
"""
