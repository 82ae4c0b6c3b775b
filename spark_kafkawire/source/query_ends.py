"""Which runs of queries a listener has heard the end of: Spark tells of their last batches after that."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Final

#: Ends that are remembered for who waits for them.
_ENDS_COUNT_MAX: Final = 1000


class QueryEnds:
    """The ends that a listener has heard of, for threads that wait for one."""

    def __init__(self) -> None:
        self._run_ids: deque[str] = deque(maxlen=_ENDS_COUNT_MAX)
        self._changed = threading.Condition()

    def add(self, run_id: Any) -> None:
        """All events of this run have been heard of."""
        with self._changed:
            self._run_ids.append(str(run_id))
            self._changed.notify_all()

    def wait(self, run_id: Any, timeout_s: float) -> bool:
        """Wait until that holds for a run; whether it does."""
        with self._changed:
            return self._changed.wait_for(lambda: str(run_id) in self._run_ids, timeout_s)
