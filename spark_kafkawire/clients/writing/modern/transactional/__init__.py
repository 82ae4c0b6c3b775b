"""Exactly-once writes (``delivery=exactly-once``) to Kafka 0.11 to 4.x: the requests of tasks and the driver.

    task      InitProducerId ─► IsDriverWaiting ─► FetchOffsets
                    ─┬─► rows ─► CommitOffset ─► the transaction stays open; the commit message names it
                     └─► the batch is committed already: no row is sent
    driver    InitProducerId ─► FetchOffsets ─► [EndTransaction … of an earlier write that was not finished]
                    ─► the tasks ─► IsOngoing … ─► CommitOffset, EndTransaction: the decision
                    ─► EndTransaction …, AwaitCompletion … of all tasks ─► CommitOffset, EndTransaction: done

- Each **attempt** of a task has a transaction under an id that no other attempt uses, so a late attempt
  cannot end a transaction that the driver is about to commit. The transaction holds the rows and an offset of
  the task's group, whose metadata names the batch. The next run reads that offset (FetchOffsets) to find out
  whether the rows are committed. It reads only if the last decision was about the same batch: before a
  decision no row is committed.
- The **decision** is an offset that the driver commits in a transaction of its own, under the id of the name
  (``kafka.transactional.id``). After the decision, each driver that finds it commits the transactions of all
  tasks. Without the decision, no driver commits any of them. A new driver begins by fencing the previous
  driver, which can decide nothing from then on.
- The write is **done** once all transactions are complete. Their coordinators report that (before Kafka 3.0 a
  second commit shows it), and the driver commits an offset that says so.

``write_state`` has the names and texts that brokers keep, ``requests`` has the requests and sends them.
``driver`` has the driver's side, ``task`` sends the rows of an attempt. In both, a state machine without I/O
(``DriverTransaction``, ``TaskTransaction``) has a step, the requests that are due, and the step after each
answer.
"""
