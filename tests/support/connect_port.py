"""The default port of Spark Connect, which one test process uses at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def default_connect_port() -> Iterator[None]:
    """Keep port 15002 from other tests.

    A program that starts its own Connect server (``remote("local")``, ``spark-pipelines``) takes this port:
    Spark tries no other.
    """
    lock = os.open(Path(tempfile.gettempdir(), "kafkawire-tests-port-15002"), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
