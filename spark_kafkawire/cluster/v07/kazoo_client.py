"""ZooKeeper client for Kafka 0.7: that of kazoo, with a limit for answers and without its log lines.

kazoo's last warning becomes part of the error that explains why there is no session.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
import threading
from collections.abc import Callable
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.hosts import collect_hosts
from kazoo.retry import KazooRetry

from spark_kafkawire.errors import OptionError, printable
from spark_kafkawire.model import Broker
from spark_kafkawire.options import Discovery
from spark_kafkawire.secrecy import keep_secret, without_secrets

#: Longest accepted answer, bytes: the names of half a million topics.
ANSWER_BYTES_MAX: Final = 64 << 20
#: Bounds of the requested session timeout, seconds. A server may raise it; kazoo waits that long for each
#: address.
SESSION_TIMEOUT_MAX_S: Final = 10.0
SESSION_TIMEOUT_MIN_S: Final = 0.1
#: Wait before the next attempt to connect, seconds.
RECONNECT_PAUSE_S: Final = 0.1


def place_of(discovery: Discovery) -> str:
    """The option and its value, with which errors begin."""
    return f"option zookeeper.connect: {printable(discovery.zookeeper_connect)}"


def servers_of(discovery: Discovery) -> list[Broker]:
    """Addresses in ``zookeeper.connect``, with the ids -1, -2, …."""
    addresses, _ = collect_hosts(discovery.zookeeper_connect or "")
    return [Broker(-number, host, int(port)) for number, (host, port) in enumerate(addresses, 1)]


def new_client(discovery: Discovery, timeout_s: float, handler: Handler, warnings: LastWarning) -> Any:
    """A client that is not connected yet, and tries to connect until it is stopped. Its session outlives it
    for the share of ``timeout_s`` of one address."""
    hosts = discovery.zookeeper_connect or ""
    if discovery.zookeeper_auth:
        _, credential = discovery.zookeeper_auth
        keep_secret(credential, credential.partition(":")[2])
    session_timeout_s = timeout_s / (2 + hosts.count(","))
    try:
        return KazooClient(
            hosts,
            timeout=min(max(session_timeout_s, SESSION_TIMEOUT_MIN_S), SESSION_TIMEOUT_MAX_S),
            handler=handler,
            auth_data=[discovery.zookeeper_auth] if discovery.zookeeper_auth else None,
            connection_retry=KazooRetry(
                max_tries=-1, delay=RECONNECT_PAUSE_S, max_delay=1.0, sleep_func=handler.sleep_func
            ),
            logger=warnings.logger,
        )
    except ValueError as error:
        raise OptionError(f"{place_of(discovery)}: {printable(error)}") from error


def reason(error: BaseException) -> str:
    """The text of an error of kazoo, without bytes of the peer, which may be a credential."""
    return type(error).__name__ if isinstance(error, UnicodeError) else without_secrets(repr(error))


class LastWarning(logging.Handler):
    """Keeps the last warning of kazoo that gives a reason (``hint``), instead of printing it.

    kazoo's messages below warnings may hold credentials.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.hint = ""
        # Created without getLogger: so it has no parent that prints, and an application that enables its
        # loggers does not enable this logger.
        self.logger = logging.Logger("kazoo", logging.WARNING)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        if cause or record.args:
            words = " ".join((record.getMessage() + (f": {reason(cause)}" if cause else "")).split())
            self.hint = f": {printable(words)}"


class Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Threads and sockets of kazoo. ``stirred`` is set when one of the threads ends."""

    def __init__(self, warnings: LastWarning) -> None:
        super().__init__()
        self.stirred = threading.Event()
        self._warnings = warnings

    def spawn(self, func: Callable[..., None], *args: Any, **kwargs: Any) -> Any:
        """Run ``func`` in a thread. Its end, also by an exception, sets ``stirred`` and prints nothing."""

        def run() -> None:
            try:
                func(*args, **kwargs)
            except Exception:
                self._warnings.logger.exception("this is not a ZooKeeper")
            self.stirred.set()

        return super().spawn(run)

    def select(self, readers: Any, writers: Any, _: Any, timeout_s: float | None = None) -> Any:
        """Sockets that are ready. kazoo's own method needs ten system calls, five times per request."""
        poll = select.poll()
        for sockets, event in ((readers, select.POLLIN), (writers, select.POLLOUT)):
            for sock in sockets:
                poll.register(sock, event)
        ready = {fd for fd, _ in poll.poll(None if timeout_s is None else timeout_s * 1000)}
        return *([sock for sock in sockets if sock.fileno() in ready] for sockets in (readers, writers)), []

    def create_connection(self, *args: Any, **kwargs: Any) -> socket.socket:
        """A connection that rejects answers above ``ANSWER_BYTES_MAX``."""
        try:
            plain = super().create_connection(*args, **kwargs)
        except TimeoutError as error:  # without the text that kazoo repeats
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from error
        return _Socket(plain.family, plain.type, plain.proto, fileno=plain.detach())


class _Socket(socket.socket):
    """A socket for kazoo, which requests as many bytes as the peer announces."""

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        if size > ANSWER_BYTES_MAX:
            raise OSError(
                errno.EMSGSIZE,
                f"the peer announces an answer of {size} bytes, at most {ANSWER_BYTES_MAX} are taken;"
                " is this the port of a ZooKeeper?",
            )
        return super().recv(size, flags)
