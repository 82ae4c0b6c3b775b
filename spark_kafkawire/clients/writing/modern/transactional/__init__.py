"""Writes that are there wholly or not at all: what a task and the driver ask of brokers, and in which order.

    task      Begin ─► Read ─┬─► rows ─► Hold ─► (left open; its message says whose it is)
                             └─► the batch is held already: no row is sent
    driver    Begin ─► Read ─► [End … of a write that was decided and not finished] ─► the tasks
                    ─► IsOpen … ─► Hold, End: the decision ─► End …, Settle … of all tasks' ─► Hold, End: done

- An **attempt** of a task has a transaction of its own, under an id that no other attempt has: one that is
  late ends nothing that the driver is about to commit. The rows and a record of them, an offset of the task's
  group whose text names the batch, are in it together: so the next run learns whether they count. It asks
  (Read) where the last decision was about its batch; before one nothing counts.
- The **decision** is a record in a transaction of the driver, whose id is that of the name. From there on all
  tasks' transactions are committed, by whoever finds it; without it, none is. To begin the driver's
  transaction fences the driver before, which decides nothing from then on.
- It is **done** once all of them are complete, which their coordinators tell (before Kafka 3.0 a second
  commit does), and that is noted, too.

``task`` and ``driver`` are pure: states (the driver's are in ``steps``), the requests that are due, and what
answers make of them. ``requests`` and ``meanings`` are their words, ``records`` the texts that brokers keep.
``asking`` sends.
"""
