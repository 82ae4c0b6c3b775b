"""ZooKeeper session of a member of a consumer group of Kafka 0.7: it reconnects, and counts lost sessions."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import KazooState, KeeperState

from spark_kafkawire.errors import Action, DiscoveryError, KafkaWireError
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.options import Discovery

from .kazoo_client import Handler, LastWarning, new_client, place_of
from .watched_nodes import WatchedNodes
from .zookeeper_session import translated_errors
from .zookeeper_tree import Tree

#: Seconds until the nodes of a member that died disappear, as for the consumers of 0.7
#: (``zk.sessiontimeout.ms``). A server may raise it.
SESSION_TIMEOUT_S: Final = 6.0
#: Most seconds that leaving blocks the caller: if ZooKeeper does not answer, the nodes expire later.
CLOSE_TIMEOUT_S: Final = 5.0

_BROKEN: Final = (ConnectionLoss, ConnectionClosedError, SessionExpiredError)


class SessionBroke(KafkaWireError):
    """The connection to ZooKeeper broke, or the session is lost: everything must be read again."""

    action = Action.BACK_OFF


class MemberSession:
    """The session, open from its creation until ``close``. ``stirred`` is called in threads of kazoo whenever
    a watched node, the connection or the session may have changed."""

    def __init__(self, discovery: Discovery, stirred: Callable[[], None]) -> None:
        self._discovery = discovery
        self._stirred = stirred
        self._watched = WatchedNodes(stirred)
        self._warnings = LastWarning()
        hosts = 2 + (discovery.zookeeper_connect or "").count(",")
        self._client: Any = new_client(
            discovery,
            SESSION_TIMEOUT_S * hosts,
            Handler(self._warnings),
            self._warnings,
        )
        #: Number of sessions that were lost, with all of their ephemeral nodes.
        self.lost_count = 0
        self._is_refused = False
        self._client.add_listener(self._changed)
        self._client.start_async()

    def _changed(self, state: str) -> None:
        if state == KazooState.LOST:
            self.lost_count += 1
            self._is_refused = self._client.client_state == KeeperState.AUTH_FAILED
        self._watched.forget_all()
        self._stirred()

    def forget(self) -> None:
        """Read all nodes again next time."""
        self._watched.forget_all()

    @contextlib.contextmanager
    def tree(self, timeout_s: float) -> Iterator[Tree]:
        """The nodes, with ``timeout_s`` for all requests. Nodes that are read are watched, and read again
        only after a change.

        Raises ``SessionBroke`` (retriable), and ``DiscoveryError`` (fatal) if ZooKeeper does not answer.
        """
        with translated_errors(self._discovery, timeout_s, self._warnings):
            try:
                yield Tree(self._client, Deadline.after(timeout_s), self._watched)
            except _BROKEN as error:
                raise SessionBroke(
                    f"{place_of(self._discovery)}: the session broke{self._warnings.hint}; check that "
                    "ZooKeeper is up"
                ) from error

    def check(self) -> None:
        """Raise ``DiscoveryError`` (fatal) for a session that cannot reconnect, because its login was
        refused."""
        if self._is_refused:
            raise DiscoveryError(
                f"{place_of(self._discovery)}: ZooKeeper refuses the login; check the option zookeeper.auth"
            )

    def close(self) -> None:
        """End the session and remove its ephemeral nodes."""
        closing = threading.Thread(target=self._close, name="kafkawire-leaving", daemon=True)
        closing.start()
        closing.join(CLOSE_TIMEOUT_S)

    def _close(self) -> None:
        with contextlib.suppress(Exception):
            self._client.stop()
            self._client.close()
