"""The end of a job by SIGINT (Ctrl-C) or SIGTERM: one line, and 128 plus the signal's number as exit code.

    with interruptible(give_up) as interruption:
        ...                                     # a signal raises ``Interrupted`` here
        interruption.ended()

The first signal raises ``Interrupted`` in the main thread, so that blocks end what they have begun. Others
change nothing. What has not ended after ``ENDS_WITHIN_S`` is given up, and the process ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
#: Time that blocks have to end, seconds. The end of the process takes some of the 5 s that are promised.
ENDS_WITHIN_S: Final = 4.0
#: Time after which a signal is sent again whose error Python lost, seconds.
_AGAIN_S: Final = 0.02
#: Shells report a process that ended by a signal with this plus the signal's number.
_OF_SIGNALS: Final = 128


class Interrupted(KeyboardInterrupt):
    """A signal has ended the job. ``outcome`` says what it left, None where the job's own text does.

    It is a ``KeyboardInterrupt``, for which py4j closes its connection: an answer is still to come on it.
    """

    outcome: str | None = None

    def __init__(self, by: signal.Signals) -> None:
        super().__init__(by.name)
        self.code = exit_code(by)


class Interruption:
    """The signal that ends a job, if one came. ``give_up`` reports the end if blocks take too long."""

    def __init__(self, give_up: Callable[[], None], ends_within_s: float = ENDS_WITHIN_S) -> None:
        self._give_up, self._ends_within_s = give_up, ends_within_s
        self._by: signal.Signals | None = None
        self._is_raised = False
        self._ended = threading.Event()

    @property
    def code(self) -> int | None:
        """Exit code of the job; None without a signal."""
        return None if self._by is None else exit_code(self._by)

    def handle(self, number: int, _frame: FrameType | None) -> None:
        """Raise ``Interrupted`` for the first signal."""
        if self._is_raised or self._ended.is_set():
            return
        self._is_raised = True
        if self._by is None:
            self._by = signal.Signals(number)
            threading.Thread(target=self._await_end, name="kafkawire-interruption", daemon=True).start()
        raise Interrupted(self._by)

    def check(self, error: Exception) -> None:
        """Raise ``Interrupted`` in place of this error if a signal came before it."""
        if self._by is not None:
            raise Interrupted(self._by) from error

    def unraisable(self, args: Any, report: Callable[[Any], Any]) -> None:
        """Send the signal again where Python lost its error, as in a callback of its garbage collection."""
        if not isinstance(args.exc_value, Interrupted) or self._by is None:
            report(args)
            return
        self._is_raised = False
        main = threading.main_thread().ident
        assert main is not None
        again = threading.Timer(_AGAIN_S, signal.pthread_kill, (main, self._by))
        again.daemon = True
        again.start()

    def _await_end(self) -> None:
        if not self._ended.wait(self._ends_within_s):
            try:
                self._give_up()
            finally:
                assert self._by is not None
                os._exit(exit_code(self._by))

    def ended(self) -> None:
        """All blocks have ended: nothing is given up any more."""
        self._ended.set()


def exit_code(by: signal.Signals) -> int:
    """The exit code of a job that a signal has ended."""
    return _OF_SIGNALS + by


@contextlib.contextmanager
def interruptible(give_up: Callable[[], None]) -> Iterator[Interruption]:
    """Handle signals until the block ends. Python delivers them to the main thread: in others a job has no
    handler."""
    interruption = Interruption(give_up)
    report = sys.unraisablehook
    sys.unraisablehook = lambda args: interruption.unraisable(args, report)
    with handling(lambda _: interruption.handle):
        try:
            yield interruption
        except Exception as error:
            # Blocks that end may raise other errors, and Python makes one of an error in ``__set_name__``.
            interruption.check(error)
            raise
        finally:
            interruption.ended()
            sys.unraisablehook = report
    if interruption.code is not None and threading.current_thread() is threading.main_thread():
        for number in SIGNALS:  # the process is about to end, by this signal
            signal.signal(number, signal.SIG_IGN)


Handler = Callable[[int, FrameType | None], None]


@contextlib.contextmanager
def handling(handler_after: Callable[[Handler], Handler]) -> Iterator[None]:
    """Set handlers until the block ends; ``handler_after`` makes each of the handler that was there."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, former in before.items():
        signal.signal(number, handler_after(former if callable(former) else _ignore))
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Stand for a handler that is not Python's."""
