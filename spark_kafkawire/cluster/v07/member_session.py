"""The ZooKeeper session of a group's member: it comes back after breaks, and tells when it was lost."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import KazooState, KeeperState

from ...errors import Action, DiscoveryError, KafkaWireError
from ...net.transport import Deadline
from ...options import Discovery
from .kazoo_client import Handler, LastWarning, new_client, place_of
from .zookeeper_session import told
from .zookeeper_tree import Tree

#: How long the nodes of a member stay that is gone without a word, seconds, as those of 0.7's own consumers
#: (``zk.sessiontimeout.ms``). A server raises it to what it allows.
SESSION_TIMEOUT_S: Final = 6.0
#: How long leaving may hold up the caller, seconds: where ZooKeeper is away, its nodes go by themselves.
CLOSE_TIMEOUT_S: Final = 5.0

_BROKEN: Final = (ConnectionLoss, ConnectionClosedError, SessionExpiredError)


class SessionBroke(KafkaWireError):
    """The connection to ZooKeeper broke, or the session is lost: all is to be looked at anew."""

    action = Action.BACK_OFF


class MemberSession:
    """Open from the start until ``close``. ``stirred`` is called, in threads of kazoo's, whenever something
    may have changed: a node that was asked about, the connection, or the session."""

    def __init__(self, discovery: Discovery, stirred: Callable[[], None]) -> None:
        self._discovery = discovery
        self._stirred = stirred
        self._warnings = LastWarning()
        hosts = 2 + (discovery.zookeeper_connect or "").count(",")
        self._client: Any = new_client(
            discovery,
            SESSION_TIMEOUT_S * hosts,
            Handler(self._warnings),
            self._warnings,
        )
        #: Sessions that were lost so far. What went with them is gone.
        self.lost_count = 0
        self._is_refused = False
        self._client.add_listener(self._changed)
        self._client.start_async()

    def _changed(self, state: str) -> None:
        if state == KazooState.LOST:
            self.lost_count += 1
            self._is_refused = self._client.client_state == KeeperState.AUTH_FAILED
        self._stirred()

    @contextlib.contextmanager
    def tree(self, timeout_s: float) -> Iterator[Tree]:
        """The nodes, for so long at most. What is asked about is watched.

        Raises ``SessionBroke`` (retriable), and ``DiscoveryError`` (fatal) where ZooKeeper does not answer.
        """
        with told(self._discovery, timeout_s, self._warnings):
            try:
                yield Tree(self._client, Deadline.after(timeout_s), lambda _: self._stirred())
            except _BROKEN as error:
                raise SessionBroke(
                    f"{place_of(self._discovery)}: the session broke{self._warnings.hint}"
                ) from error

    def check(self) -> None:
        """Raises ``DiscoveryError`` (fatal) for a session that never comes back: its login was refused."""
        if self._is_refused:
            raise DiscoveryError(
                f"{place_of(self._discovery)}: ZooKeeper refuses the login; does option zookeeper.auth fit?"
            )

    def close(self) -> None:
        """End the session, and with it all that it holds."""
        closing = threading.Thread(target=self._close, name="kafkawire-leaving", daemon=True)
        closing.start()
        closing.join(CLOSE_TIMEOUT_S)

    def _close(self) -> None:
        with contextlib.suppress(Exception):
            self._client.stop()
            self._client.close()
