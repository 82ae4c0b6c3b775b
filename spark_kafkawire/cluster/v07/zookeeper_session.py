"""A ZooKeeper session for many nodes at once, with a deadline for all.

    names = read_tree(discovery, 30.0, lambda tree: next(tree.children(["/brokers/ids"])))

kazoo stays inside this module and the two it is made of: its exceptions become ours.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError

from ...errors import DiscoveryError, RequestTimedOut
from ...net.transport import Deadline
from ...options import Discovery
from .kazoo_client import RECONNECT_PAUSE_S, Handler, LastWarning, new_client, place_of
from .zookeeper_tree import Tree

_log = logging.getLogger("spark_kafkawire")
T = TypeVar("T")

#: How long a session is waited for before anybody is told, seconds. One of several addresses may be dead.
TOLD_AFTER_S: Final = 1.0
#: How long closing a session may hold up the caller, seconds. It goes on in the background.
CLOSE_TIMEOUT_S: Final = 0.5

_LOST: Final = (ConnectionLoss, ConnectionClosedError, SessionExpiredError)


def read_tree(discovery: Discovery, timeout_s: float, read: Callable[[Tree], T]) -> T:
    """What ``read`` makes of the tree, in one session that is closed afterwards.

    A session that is lost is replaced and ``read`` called again, all within ``timeout_s``; so it may
    write what may be written twice.

    Raises ``DiscoveryError`` (fatal), ``OptionError`` (fatal) for an impossible address.
    """
    warnings = LastWarning()
    with told(discovery, timeout_s, warnings):
        return _read_until(discovery, Deadline.after(timeout_s), warnings, read)


@contextlib.contextmanager
def told(discovery: Discovery, timeout_s: float, warnings: LastWarning) -> Iterator[None]:
    """kazoo's exceptions as ours: ``DiscoveryError`` (fatal), with where and why."""
    try:
        yield
    except (RequestTimedOut, KazooTimeoutError) as error:
        raise DiscoveryError(
            f"{place_of(discovery)}: no answer within {timeout_s:g} s (requestTimeout, patience)"
            f"{warnings.hint}"
        ) from error
    except KazooException as error:
        raise DiscoveryError(f"{place_of(discovery)}: ZooKeeper answers {type(error).__name__}") from error
    except DiscoveryError as error:
        raise error.located(place_of(discovery)) from error


def _read_until(
    discovery: Discovery, deadline: Deadline, warnings: LastWarning, read: Callable[[Tree], T]
) -> T:
    waiting = _Waiting(discovery, deadline, warnings)
    while True:
        with contextlib.suppress(*_LOST), _session(discovery, deadline, warnings, waiting) as client:
            return read(Tree(client, deadline))
        time.sleep(min(RECONNECT_PAUSE_S, deadline.remaining_s()))


class _Waiting:
    """Tells once that ZooKeeper is waited for, and once that it is there."""

    def __init__(self, discovery: Discovery, deadline: Deadline, warnings: LastWarning) -> None:
        self._discovery, self._deadline, self._warnings = discovery, deadline, warnings
        self._began_s = time.monotonic()
        self._is_told = False

    def tell(self) -> None:
        """No session has come about so far."""
        if not self._is_told and self._deadline.left_s:
            self._is_told = True
            _log.warning(
                "%s: no session yet%s; trying again for up to %g s (requestTimeout, patience)",
                place_of(self._discovery),
                self._warnings.hint,
                self._deadline.timeout_s,
            )

    def ended(self) -> None:
        """There is a session."""
        if self._is_told:
            self._is_told = False
            waited_s = time.monotonic() - self._began_s
            _log.info("%s: going on after %.1f s", place_of(self._discovery), waited_s)


@contextlib.contextmanager
def _session(
    discovery: Discovery, deadline: Deadline, warnings: LastWarning, waiting: _Waiting
) -> Iterator[Any]:
    handler = Handler(warnings)
    client = new_client(discovery, deadline.timeout_s, handler, warnings)
    client.add_listener(lambda _: handler.stirred.set())
    client.start_async()
    try:
        if not handler.stirred.wait(min(TOLD_AFTER_S, deadline.remaining_s())):
            waiting.tell()
            handler.stirred.wait(deadline.remaining_s())
        if not client.connected:
            raise ConnectionLoss
        waiting.ended()
        yield client
    finally:
        # kazoo ends its thread between two attempts to connect: some seconds may pass.
        closing = threading.Thread(target=_close, args=(client,), daemon=True)
        closing.start()
        closing.join(CLOSE_TIMEOUT_S)


def _close(client: Any) -> None:
    with contextlib.suppress(Exception):
        client.stop()
        client.close()
