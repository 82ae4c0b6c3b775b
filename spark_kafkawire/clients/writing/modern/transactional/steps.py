"""Where the driver of a write stands, what it is about, and what the tasks told it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .....cluster.modern.transactions import Transaction
from .records import BatchId


class DriverStep(enum.Enum):
    """Where the driver stands."""

    TAKE_OVER = "it begins its transaction: the driver before decides nothing any more"
    READ = "it asks what was decided last"
    READ_PARTS = "it asks for the rest of that"
    FINISH = "it commits what was decided"
    COMPLETE = "it waits until all of that has reached the partitions"
    MARK = "it notes that this is done"
    END_MARK = "it commits that note"
    READY = "the tasks may begin, or go on"
    CHECK = "it asks whether all their transactions are open"
    DECIDE = "it notes the decision"
    END_DECISION = "it commits the decision: from here on it counts"
    DROP = "it aborts its own transaction: what was not decided yet never will be"
    ABORT = "it aborts the tasks' transactions"
    DONE = "all is committed"
    ABORTED = "nothing of it counts"
    FAILED = "it does not know, or a part counts: the next run with the name settles it"


class Purpose(enum.Enum):
    """Why the driver reads and finishes."""

    OPEN = "to begin a write"
    COMMIT = "to commit it"
    UNDO = "to abort it"


@dataclass(frozen=True, slots=True)
class Write:
    """What the tasks told: the batch, None where none told anything, how many tasks there are, how many of
    them had rows, and their transactions; of tasks that sent nothing there is none. ``topic`` is one that
    they wrote to."""

    batch: BatchId | None
    tasks: int
    busy: int
    open: tuple[Transaction, ...]
    topic: str
