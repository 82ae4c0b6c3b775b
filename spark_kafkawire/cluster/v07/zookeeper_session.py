"""ZooKeeper session for Kafka 0.7: it reads many nodes at once, with one deadline.

    names = read_tree(discovery, 30.0, lambda tree: next(tree.children(["/brokers/ids"])))

Only this module, ``kazoo_client`` and ``zookeeper_tree`` use kazoo; its exceptions are translated here.
"""

from __future__ import annotations

import contextlib
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

from spark_kafkawire.errors import LOG, DiscoveryError, RequestTimedOut, printable
from spark_kafkawire.model import Broker
from spark_kafkawire.net.first_contact import Bootstrap
from spark_kafkawire.net.strangers import Kind, kind_at
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import Discovery

from .kazoo_client import RECONNECT_PAUSE_S, Handler, LastWarning, new_client, place_of, servers_of
from .later_brokers import later_brokers
from .zookeeper_tree import Tree

T = TypeVar("T")

#: Seconds to wait for a session before a warning. One of several addresses may be dead.
WARN_AFTER_S: Final = 1.0
#: Most seconds that closing a session blocks the caller. It continues in the background.
CLOSE_TIMEOUT_S: Final = 0.5

_LOST: Final = (ConnectionLoss, ConnectionClosedError, SessionExpiredError)


def read_tree(discovery: Discovery, timeout_s: float, read: Callable[[Tree], T]) -> T:
    """Call ``read`` with the tree, in one session that is closed afterwards.

    If the session is lost, ``read`` is called again in a new session, all within ``timeout_s``. So all writes
    of ``read`` must be repeatable.

    Raises ``DiscoveryError`` (fatal), ``OptionError`` (fatal) for an impossible address.
    """
    warnings = LastWarning()
    with translated_errors(discovery, timeout_s, warnings):
        return _read_until(discovery, Deadline.after(timeout_s), warnings, read)


@contextlib.contextmanager
def translated_errors(discovery: Discovery, timeout_s: float, warnings: LastWarning) -> Iterator[None]:
    """Translate exceptions of kazoo into ``DiscoveryError`` (fatal) with the place and the reason."""
    try:
        yield
    except (RequestTimedOut, KazooTimeoutError) as error:
        raise DiscoveryError(
            f"{place_of(discovery)}: no answer within {timeout_s:g} s ({_bounds(discovery)}); start "
            f"ZooKeeper, or correct the address{warnings.hint}"
        ) from error
    except KazooException as error:
        raise DiscoveryError(
            f"{place_of(discovery)}: ZooKeeper rejects the request ({type(error).__name__}); check its log"
        ) from error
    except DiscoveryError as error:
        raise error.located(place_of(discovery)) from error


def _bounds(discovery: Discovery) -> str:
    """Options that limit the wait for ZooKeeper."""
    bounds = "requestTimeout, brokerDownTimeout"
    return bounds if Bootstrap(discovery.place).is_answered else f"bootstrapTimeout, {bounds}"


def _read_until(
    discovery: Discovery, deadline: Deadline, warnings: LastWarning, read: Callable[[Tree], T]
) -> T:
    waiting = _Waiting(discovery, deadline, warnings)
    while True:
        with contextlib.suppress(*_LOST), _session(discovery, deadline, warnings, waiting) as client:
            return read(Tree(client, deadline))
        time.sleep(min(RECONNECT_PAUSE_S, deadline.remaining_s()))


class _Waiting:
    """Logs once that a session is missing, and once that it is established."""

    def __init__(self, discovery: Discovery, deadline: Deadline, warnings: LastWarning) -> None:
        self._discovery, self._deadline, self._warnings = discovery, deadline, warnings
        self._began_s = time.monotonic()
        self._has_warned = False

    def warn(self) -> None:
        """Warn that there is no session yet. Raises ``DiscoveryError`` (fatal) if there cannot be one."""
        if not self._has_warned and self._deadline.left_s:
            self._has_warned = True
            if not Bootstrap(self._discovery.place).is_answered:
                _check_kinds(self._discovery)
            LOG.warning(
                "%s: no session yet%s; trying again for up to %g s (%s)",
                place_of(self._discovery),
                self._warnings.hint,
                self._deadline.timeout_s,
                _bounds(self._discovery),
            )

    def ended(self) -> None:
        """Note that the session is established."""
        Bootstrap(self._discovery.place).answered()
        if self._has_warned:
            self._has_warned = False
            waited_s = time.monotonic() - self._began_s
            LOG.info("%s: session established after %.1f s", place_of(self._discovery), waited_s)


def _check_kinds(discovery: Discovery) -> None:
    """Raise ``DiscoveryError`` (fatal) if another kind of server answers instead of ZooKeeper."""
    kinds = {server: kind_at(server, Kind.BROKER, Kind.HTTP) for server in servers_of(discovery)}
    if brokers := [_address(server) for server, kind in kinds.items() if kind is Kind.BROKER]:
        raise later_brokers(f"{brokers[0]} is {Kind.BROKER.value}, not a ZooKeeper", brokers)
    if others := [_address(server) for server, kind in kinds.items() if kind is not None]:
        raise DiscoveryError(
            f"{others[0]} is {Kind.HTTP.value}, not a ZooKeeper; correct the host and the port"
        )


def _address(server: Broker) -> str:
    return printable(f"{server.host}:{server.port}")


@contextlib.contextmanager
def _session(
    discovery: Discovery, deadline: Deadline, warnings: LastWarning, waiting: _Waiting
) -> Iterator[Any]:
    handler = Handler(warnings)
    client = new_client(discovery, deadline.timeout_s, handler, warnings)
    client.add_listener(lambda _: handler.stirred.set())
    client.start_async()
    try:
        if not handler.stirred.wait(min(WARN_AFTER_S, deadline.remaining_s())):
            waiting.warn()
            handler.stirred.wait(deadline.remaining_s())
        if not client.connected:
            raise ConnectionLoss
        waiting.ended()
        yield client
    finally:
        # kazoo stops its thread between two attempts to connect, which may take some seconds.
        closing = threading.Thread(target=_close, args=(client,), daemon=True)
        closing.start()
        closing.join(CLOSE_TIMEOUT_S)


def _close(client: Any) -> None:
    with contextlib.suppress(Exception):
        client.stop()
        client.close()
