"""Registration of an embedded 0.7 broker and its topics in ZooKeeper.

    /brokers/ids/0              ephemeral   host-startms:host:port
    /brokers/topics/T/0         ephemeral   number of partitions configured for T on broker 0

Their parents are persistent and have null data. When the session is lost, all nodes are registered again in
the next one.

Source: recordings (``zk_tree.json``), 0.7.2 server/KafkaZooKeeper.scala, utils/ZkUtils.scala.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterable
from typing import Any, Final

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import BadArgumentsError, KazooException, NodeExistsError, NoNodeError
from kazoo.retry import InterruptedError, KazooRetry

from ..errors import ConnectFailed, DiscoveryError, log_of, printable, quote
from .config import BrokerConfig
from .log import now_ms

LOG: Final = log_of(__name__)

#: Put into the queue of topics to register.
_NEW_SESSION: Final = object()
_STOP: Final = object()
# Attempts to connect continue until the broker ends. kazoo's own pauses grow to a minute, which is longer
# than most session timeouts.
_ENDLESS_RETRY: Final = {"max_tries": -1, "delay": 0.1, "max_delay": 1.0}


class Registry:
    """Keeps one broker registered. After the start a thread of its own does this."""

    def __init__(self, config: BrokerConfig, port: int) -> None:
        self._config = config
        self._address = f"{config.hostname}:{port}"
        self._topics: list[str] = []
        self._tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._session_lost = False
        # The chroot is made here: kazoo's way of making it fails where two brokers do it at once.
        hosts, slash, chroot = (config.zookeeper or "").partition("/")
        self._root = slash + chroot.rstrip("/") if chroot else ""
        self._client = KazooClient(
            hosts, timeout=config.zk_session_timeout_ms / 1000, connection_retry=_ENDLESS_RETRY
        )
        self._retry = KazooRetry(**_ENDLESS_RETRY, interrupt=self._stopping.is_set, ignore_expire=True)
        self._thread = threading.Thread(target=self._run, name="registry", daemon=True)

    def start(self, topics: Iterable[str]) -> None:
        """Register the broker and the topics it has.

        Raises ``ConnectFailed`` when ZooKeeper does not answer in time, ``DiscoveryError`` when
        another broker has the id, or if ZooKeeper refuses a topic's name: a 0.7.2 broker does not start
        then, either.
        """
        self._topics = list(topics)
        with contextlib.ExitStack() as undo:
            undo.callback(self._disconnect)
            self._connect()
            try:
                self._register_all()
            except KazooException as error:
                raise DiscoveryError(
                    f"broker {self._config.broker_id} cannot register in {self._config.zookeeper}: "
                    f"{printable(repr(error))}; check zk.connect"
                ) from error
            undo.pop_all()
        self._thread.start()

    def add_topic(self, topic: str) -> None:
        """Register a new topic soon; the caller does not wait."""
        self._tasks.put(topic)

    def stop(self) -> None:
        """Close the session; the broker's nodes are gone when this returns."""
        self._stopping.set()
        self._tasks.put(_STOP)
        # First, because it also ends any wait of the thread.
        self._disconnect()
        self._thread.join()

    def _connect(self) -> None:
        timeout_ms = self._config.zk_connection_timeout_ms or self._config.zk_session_timeout_ms
        self._client.start_async().wait(timeout_ms / 1000)
        if not self._client.connected:
            raise ConnectFailed(
                f"ZooKeeper {self._config.zookeeper} did not answer in {timeout_ms} ms: check zk.connect"
            )
        self._client.add_listener(self._on_state)

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
                    self._retry(self._register_all)
                else:
                    self._topics.append(task)
                    self._retry(self._register_topic, task)
            except InterruptedError:
                return
            except (KazooException, DiscoveryError) as error:
                LOG.error("registration failed: %s", error or repr(error))

    def _register_all(self) -> None:
        creator = f"{self._config.hostname}-{now_ms()}"
        self._claim(f"{self._root}/brokers/ids/{self._config.broker_id}", f"{creator}:{self._address}")
        for topic in self._topics:
            self._register_topic(topic)

    def _register_topic(self, topic: str) -> None:
        path = f"{self._root}/brokers/topics/{topic}/{self._config.broker_id}"
        try:
            self._claim(path, str(self._config.partition_count(topic)))
        except BadArgumentsError as error:
            raise DiscoveryError(
                f"ZooKeeper refuses the name of topic {quote(topic)}: remove its folders from log.dir"
            ) from error

    def _claim(self, path: str, data: str) -> None:
        """Create an ephemeral node of this session, in place of one of an earlier session."""
        self._make_parents(path)
        while True:
            try:
                self._client.create(path, data.encode(), ephemeral=True)
                return
            except NodeExistsError:
                if self._is_claimed(path):
                    return

    def _is_claimed(self, path: str) -> bool:
        """Return true if the node at ``path`` belongs to this session. A node of a dead broker is removed."""
        with contextlib.suppress(NoNodeError):
            result, stat = self._client.get(path)
            if stat.ephemeralOwner == self._client.client_id[0]:
                return True
            # This broker listens on its address, so the broker that registered it before is dead.
            if path.startswith(f"{self._root}/brokers/ids/") and not result.endswith(
                f":{self._address}".encode()
            ):
                raise DiscoveryError(
                    f"another broker is registered as {printable(path)}: choose another brokerid"
                )
            self._client.delete(path, version=stat.version)
        return False

    def _make_parents(self, path: str) -> None:
        parts = path.split("/")
        for depth in range(2, len(parts)):
            with contextlib.suppress(NodeExistsError):
                self._client.create("/".join(parts[:depth]), None)
