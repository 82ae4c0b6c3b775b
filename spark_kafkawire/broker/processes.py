"""Child processes that end with the process that started them, also when that is killed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from ..errors import ConnectFailed

T = TypeVar("T")

#: How long a child may take to end after SIGTERM before it gets SIGKILL.
STOP_TIMEOUT_S: Final = 10.0
POLL_INTERVAL_S: Final = 0.01

# The shell becomes the child itself (exec keeps the pid). Before that it leaves a watcher behind,
# which kills the child when the other end of the pipe closes without data: the kernel closes it however the
# parent ends. PR_SET_PDEATHSIG is no alternative: it fires when the *thread* that started the child ends, and
# only Linux has it. File descriptor 3 because a background command of sh has /dev/null as stdin, and because
# dash knows only descriptors of one digit.
_WATCHED: Final = """
exec 3<&0 </dev/null
{ read -r _ <&3 || kill -9 $$; } >/dev/null 2>&1 &
exec "$@" 3<&-
"""


class ChildProcess:
    """A running child process in its own session, so that Ctrl-C reaches only its parent.

    ``output`` takes its stdout, ``log`` its stderr; both are appended to.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        output: Path,
        log: Path,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self._is_paused = False
        with open(output, "ab") as stdout, open(log, "ab") as stderr:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _WATCHED, "sh", *argv],
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                env=environ,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """True until the process has ended."""
        return self._process.poll() is None

    def wait_until(self, ready: Callable[[], T | None], what: str, timeout_s: float) -> T:
        """Poll ``ready`` until it gives a value.

        Raises ``ConnectFailed`` when the child ends or ``timeout_s`` passes before.
        """
        deadline = time.monotonic() + timeout_s
        while (value := ready()) is None:
            if not self.running:
                raise ConnectFailed(f"{self.name} ended before {what}: {self.last_log_line()}")
            if time.monotonic() > deadline:
                raise ConnectFailed(
                    f"{self.name} took over {timeout_s:g} s until {what}: {self.last_log_line()}"
                )
            time.sleep(POLL_INTERVAL_S)
        return value

    def last_log_line(self) -> str:
        """The last line of its log that reports an error, else the last line."""
        lines = [line for line in self.log.read_text("utf-8", "replace").splitlines() if line.strip()]
        errors = [
            line for line in lines if re.match(r"error: |(Caused by: )?[\w.]+(Exception|Error): ", line)
        ]
        return (errors or lines or ["it logged nothing"])[-1]

    def stop(self) -> None:
        """Ask it to end and wait for that; kill it after a timeout."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as ``kill -9`` does."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Freeze it: its connections stay open and silent, its sessions run out."""
        if not self._is_paused:
            self._is_paused = True
            os.kill(self.pid, signal.SIGSTOP)
            # On a busy machine the process runs for milliseconds after the signal. This waits for its stop.
            os.waitpid(self.pid, os.WUNTRACED)

    def resume(self) -> None:
        """Resume a paused process."""
        self._is_paused = False
        os.kill(self.pid, signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        if self.running:
            self._dismiss_watcher()
            self._process.send_signal(how)
            self._process.send_signal(signal.SIGCONT)
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._dismiss_watcher()

    def _dismiss_watcher(self) -> None:
        # A line before the end of the pipe, because another process may have the pid by then.
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(b"\n")
        with contextlib.suppress(OSError):
            self._process.stdin.close()
