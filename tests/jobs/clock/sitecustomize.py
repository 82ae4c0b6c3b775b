"""A Python whose clock is wrong: in front on the path it is what Python runs first, in Spark's workers too.

The machine's own clock cannot be set for a test. Clocks that nobody can set (``time.monotonic``) stay right.
"""

from __future__ import annotations

import os
import time
from typing import Final

#: By how many seconds, of the environment of a process.
SHIFT: Final = "KAFKAWIRE_TEST_CLOCK_S"


def shift_clock(shift_s: float) -> None:
    """Let this process believe that it is so many seconds later."""
    now_ns, shift_ns = time.time_ns, int(shift_s * 1e9)
    time.time_ns = lambda: now_ns() + shift_ns
    time.time = lambda: (now_ns() + shift_ns) / 1e9


if SHIFT in os.environ:
    shift_clock(float(os.environ[SHIFT]))
