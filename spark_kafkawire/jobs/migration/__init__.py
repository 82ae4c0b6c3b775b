"""Copies the logs of a Kafka 0.7 cluster into partitions of a modern one, each message once, in order.

Each log of 0.7 (a broker-partition of a topic) goes to a partition of its own. For each the state
directory on the driver keeps a *mark*: an offset in the source, an offset in the target, and the
number of messages before them. All that is in the source before the mark is in the target before it.

A run ::

    open     a log that is not open yet gets an identity of a producer and the target's end as its
             mark, which are saved before anything is sent
    copy     in pieces: read the target from the mark to its end; what is there must be the source's
             next messages, and is skipped; append those that follow; save the new mark
    verify   read source and target between the marks of the last verification and now; count and
             checksum of both must be equal
    close    the log is no longer open, and the next run begins at its mark

Why no message is missing or doubled, wherever a run is killed:

- A mark moves only when all before it is acknowledged by all in-sync replicas.
- What was appended after the mark is found by reading the target, whatever the killed run knew.
- What the killed run, or a task that Spark gave up and that runs on, still has under way cannot come
  on top: all appends to a partition carry the one identity of its log, and as their sequence the
  number of the message in the copy. A broker appends each sequence once and in order, so of two
  that send the same message one is refused (idempotent producers, Kafka 0.11; before, only what
  was still under way when a run was killed and read the target again is not held off).
- Should another producer write to the target in between, what is there is not what comes next in
  the source, and the run ends with an error. With source headers each message tells where it came
  from, and messages of others are passed over.

In transactions (``exactly_once``) each piece is one, of an id that only its log has, and the new mark is in
it as the offset of a group (``notes``):

- The piece and its mark are there together, or neither: a run asks for the mark, and what is before it is not
  compared. The state's mark counts where brokers have forgotten theirs; what is behind it is compared.
- To begin a transaction ends the one before: what was open is aborted, what was committed is complete, and
  nothing that was sent under it arrives any more. That stands for the identity of the log.
- The mark is taken when all is acknowledged and nothing committed: then no marker is behind the messages yet.

Only the driver writes the state, whole, by renaming; a lock keeps a second driver out.
"""
