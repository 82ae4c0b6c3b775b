"""How a broker tells ZooKeeper that it is alive and which topics it has.

    /brokers/ids/0              ephemeral   host-startms:host:port
    /brokers/topics/T/0         ephemeral   number of partitions configured for T on broker 0

Their parents are persistent and have null data. When the session is lost, all is registered
anew in the next one.

Source: recordings (``zk_tree.json``), 0.7.2 server/KafkaZooKeeper.scala, utils/ZkUtils.scala.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Iterable
from typing import Any, Final

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import BadArgumentsError, KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from ..errors import ConnectFailed, DiscoveryError
from .config import BrokerConfig
from .log import now_ms

LOGGER: Final = logging.getLogger(__name__)

#: Put into the queue of things to register.
_NEW_SESSION: Final = object()
_STOP: Final = object()


class Registry:
    """Keeps one broker registered. Topics are registered by a thread of its own."""

    def __init__(self, config: BrokerConfig, port: int) -> None:
        self._config = config
        self._address = f"{config.hostname}:{port}"
        self._topics: list[str] = []
        self._tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._session_lost = False
        self._client = KazooClient(config.zookeeper, timeout=config.zk_session_timeout_ms / 1000)
        self._thread = threading.Thread(target=self._run, name="registry", daemon=True)

    def start(self, topics: Iterable[str]) -> None:
        """Register the broker and the topics it has.

        Raises ``ConnectFailed`` when ZooKeeper does not answer in time, ``DiscoveryError`` when
        another broker has the id or a topic's name is none for ZooKeeper; 0.7.2 refuses to start
        then, too.
        """
        timeout_ms = self._config.zk_connection_timeout_ms or self._config.zk_session_timeout_ms
        try:
            self._client.start(timeout_ms / 1000)
            self._client.add_listener(self._on_state)
            self._topics = list(topics)
            self._register_all()
        except KazooTimeoutError as error:
            self._disconnect()
            raise ConnectFailed(
                f"ZooKeeper {self._config.zookeeper} did not answer within {timeout_ms} ms: check zk.connect"
            ) from error
        except (KazooException, DiscoveryError) as error:
            self._disconnect()
            raise DiscoveryError(f"broker {self._config.broker_id} cannot register: {error!r}") from error
        self._thread.start()

    def add_topic(self, topic: str) -> None:
        """Register a new topic soon; the caller does not wait."""
        self._tasks.put(topic)

    def stop(self) -> None:
        """Close the session: what was registered is gone when this returns."""
        self._tasks.put(_STOP)
        self._thread.join()
        self._disconnect()

    def abandon(self) -> None:
        """Stop without closing the session: it is left to run out."""
        self._tasks.put(_STOP)
        self._thread.join()
        # kazoo closes the session whenever its client stops; without the socket it cannot.
        with contextlib.suppress(AttributeError, OSError):
            self._client._connection._socket.close()
        self._disconnect()

    def _disconnect(self) -> None:
        self._client.stop()
        self._client.close()

    def _on_state(self, state: str) -> None:
        # Called by kazoo's connection thread, which must not wait for ZooKeeper.
        if state == KazooState.LOST:
            self._session_lost = True
        elif state == KazooState.CONNECTED and self._session_lost:
            self._session_lost = False
            self._tasks.put(_NEW_SESSION)

    def _run(self) -> None:
        while (task := self._tasks.get()) is not _STOP:
            try:
                if task is _NEW_SESSION:
                    self._register_all()
                else:
                    self._topics.append(task)
                    self._register_topic(task)
            except (KazooException, DiscoveryError) as error:
                LOGGER.error("%s cannot be registered: %r", "broker" if task is _NEW_SESSION else task, error)

    def _register_all(self) -> None:
        started = f"{self._config.hostname}-{now_ms()}"
        self._claim(f"/brokers/ids/{self._config.broker_id}", f"{started}:{self._address}")
        for topic in self._topics:
            self._register_topic(topic)

    def _register_topic(self, topic: str) -> None:
        path = f"/brokers/topics/{topic}/{self._config.broker_id}"
        try:
            self._claim(path, str(self._config.partition_count(topic)))
        except BadArgumentsError as error:
            raise DiscoveryError(
                f"ZooKeeper refuses the name of topic {topic!r}: remove its folders from log.dir"
            ) from error

    def _claim(self, path: str, data: str) -> None:
        """Create an ephemeral node of this session, in place of one of an earlier session."""
        self._make_parents(path)
        while True:
            try:
                self._client.create(path, data.encode(), ephemeral=True)
                return
            except NodeExistsError:
                self._remove_stale(path)

    def _remove_stale(self, path: str) -> None:
        try:
            found, stat = self._client.get(path)
        except NoNodeError:
            return
        # This broker listens on its address, so whoever registered it before is dead.
        ours = path.startswith("/brokers/topics/") or found.decode().endswith(f":{self._address}")
        if not ours:
            raise DiscoveryError(f"a broker is already registered on {path}: choose another brokerid")
        with contextlib.suppress(NoNodeError):
            self._client.delete(path, version=stat.version)

    def _make_parents(self, path: str) -> None:
        parts = path.split("/")[1:-1]
        self._client.ensure_path("/")
        for depth in range(1, len(parts) + 1):
            with contextlib.suppress(NodeExistsError):
                self._client.create("/" + "/".join(parts[:depth]), None)
