"""Copies the partitions of a Kafka 0.7 cluster into partitions of a modern one, each message once, in order.

Each partition of 0.7 (a broker-partition of a topic) goes to a partition of its own. For each the state
directory on the driver keeps a *mark*: an offset in the source, an offset in the target, and the
number of messages before them. The target holds, before its offset, all messages of the source before the
mark.

A run ::

    open     a partition that is not open yet gets a producer id and the target's end as its
             mark, which are saved before anything is sent
    copy     in pieces: read the target from the mark to its end; the messages there must be the source's
             next messages, and are skipped; append those that follow; save the new mark
    verify   read source and target between the marks of the last verification and now; count and
             checksum of both must be equal
    close    the partition is no longer open, and the next run begins at its mark

No message is missing or duplicated, wherever a run is killed:

- A mark moves only when all in-sync replicas have acknowledged the messages before it.
- The next run reads the target, so it finds all messages that were appended after the mark.
- Late requests of a killed run, or of a task that Spark has given up, add nothing. All appends to a
  partition have the same producer id, and the number of the message in the copy is its sequence. A broker
  appends each sequence once and in order, so it refuses the second of two equal appends (idempotent
  producers, Kafka 0.11). Earlier brokers do not refuse such late requests.
- If another producer writes to the target in between, its messages differ from the next ones of the source,
  and the run fails. With source headers each message names its place in the source, and messages of others
  are skipped.

With ``exactly_once`` each piece is a transaction. Each partition has its own transactional id, and the
transaction contains the new mark as the offset of a group (``exactly_once``):

- The piece and its mark are committed together. A run asks the brokers for the mark, and does not compare
  the messages before it. If the brokers' mark has expired, the state's mark counts, and messages after it
  are compared.
- A new transaction ends the one before: an open one is aborted, a committed one is completed, and late
  requests of it are refused. So no producer id has to be kept.
- The mark is taken when all messages are acknowledged and the transaction is not committed: no control batch
  follows the messages then.

Only the driver writes the state. It replaces the file in one step, and a lock keeps a second driver out.
"""
