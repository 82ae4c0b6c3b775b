"""What is to be done before Spark ends the process that plans a streaming query, which it does by SIGTERM."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Final

#: How long the end may be held up, seconds.
_TIMEOUT_S: Final = 5.0


def before_sigterm(leave: Callable[[], None]) -> None:
    """Call ``leave`` when the process is told to end, and end then. Only a main thread hears of it, and what
    somebody else has set stays."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return

    def end(number: int, _: object) -> None:
        # In a thread: the one that is interrupted here may hold what ``leave`` waits for.
        leaving = threading.Thread(target=leave, daemon=True)
        leaving.start()
        leaving.join(_TIMEOUT_S)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)
