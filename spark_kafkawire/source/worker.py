"""Spark's Python processes, for planning and for tasks: what travels between them, and what each prepares.

The look-up of sources imports this module, so it imports nothing of the package.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
import zlib
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition

if TYPE_CHECKING:
    from ..clients.reading.task import FetchTask
    from ..net.sasl import Sasl

T = TypeVar("T")

#: The folder of files in which Spark has a streaming query look, and which does not have them.
_OF_STREAMS: Final = f"{os.sep}streaming_job"
#: The longest delay of SIGTERM, seconds.
_LEAVE_TIMEOUT_S: Final = 5.0


class KafkaWirePartition(InputPartition):
    """The input of one task: one range of one partition, or several ranges in sequence. Plain data, because
    it is pickled.

    Spark's pickler inspects each object. With a thousand partitions that takes a third of planning, so Spark
    gets bytes.
    """

    def __init__(self, *tasks: FetchTask, login: Sasl | None = None) -> None:
        super().__init__(tasks)
        self.tasks = tasks
        #: The delegation token of the task, with ``delegationTokens``.
        self.login = login

    def __getstate__(self) -> bytes:
        return pickle.dumps((self.tasks, self.login), pickle.HIGHEST_PROTOCOL)

    def __setstate__(self, state: bytes) -> None:
        self.tasks, self.login = pickle.loads(state)
        self.value = self.tasks

    def __repr__(self) -> str:
        return f"KafkaWirePartition({', '.join(str(task.range) for task in self.tasks)})"


class Packed(Generic[T]):
    """A value that travels with an object, for the few receiving processes that need it: its first use
    unpickles it and imports its modules.

    It travels compressed: Spark sends it with each task, and lists of servers and partitions repeat
    themselves.
    """

    def __init__(self, value: T) -> None:
        self._value: T | None = value
        self._pickled = b""

    @property
    def value(self) -> T:
        """The value itself."""
        if self._value is None:
            self._value = pickle.loads(zlib.decompress(self._pickled))
        return self._value

    def __getstate__(self) -> bytes:
        # The value may have changed since it arrived.
        if self._value is None:
            return self._pickled
        return zlib.compress(pickle.dumps(self._value, pickle.HIGHEST_PROTOCOL))

    def __setstate__(self, state: Any) -> None:
        self._value, self._pickled = None, state


@cache
def freeze_imports() -> None:
    """Take what Spark has imported out of garbage collection, once, before anything of ours is imported.

    Objects that imports create stay, and each few thousand of them start a collection over all objects: a
    sixth of the time that a process imports, while a first query waits for it.
    """
    gc.freeze()


def find_sent_files() -> None:
    """Let a process that plans a stream import what ``--py-files`` sent, such as a source of tokens.

    Spark names that process a folder in the folder of the files, ``userFiles-…/streaming_job``, where none of
    them is.
    """
    for path in list(sys.path):
        files, is_of_stream, name = path.rpartition(_OF_STREAMS)
        if not is_of_stream or name[:1] not in ("", os.sep) or os.path.exists(path):
            continue
        if files + name not in sys.path:
            sys.path.insert(sys.path.index(path), files + name)


@cache
def freeze_objects(_kernels_loaded: bool) -> None:
    """Take what the process holds now out of garbage collection; once, and once with the kernels.

    After every task, and every question to a planning process, Spark collects garbage among all objects
    of the process, modules and all: 20 to 40 ms for a task that may take less. The collector skips frozen
    objects.
    """
    gc.freeze()


def batch_of_task() -> str:
    """The batch of the streaming query that the task belongs to, as errors name it."""
    context = TaskContext.get()
    number = context.getLocalProperty("streaming.sql.batchId") if context else None
    return "the batch" if number is None else f"batch {number}"


def call_before_sigterm(leave: Callable[[], None]) -> None:
    """Call ``leave`` before Spark ends the process that plans a streaming query, which it does with SIGTERM.
    Only a main thread receives the signal, and a handler that another program has set stays."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return

    def end(number: int, _: object) -> None:
        # In a thread: the one that is interrupted here may hold what ``leave`` waits for.
        leaving = threading.Thread(target=leave, daemon=True)
        leaving.start()
        leaving.join(_LEAVE_TIMEOUT_S)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)
