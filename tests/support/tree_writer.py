"""ZooKeeper trees in the form of 0.7 brokers, made for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kazoo.client import KazooClient

from spark_kafkawire.options import Discovery


class TreeWriter:
    """Writes nodes below a chroot. ``discovery`` is what a user's options become for it."""

    def __init__(self, address: str, chroot: str = "") -> None:
        self.connect = f"{address}{chroot}"
        self._chroot = chroot
        self._client = KazooClient(address)

    @property
    def discovery(self) -> Discovery:
        """Options that lead to this tree."""
        return Discovery(zookeeper_connect=self.connect)

    def put(self, path: str, data: bytes = b"", acl: Any = None) -> None:
        """Create a node and those above it."""
        self._client.create(f"{self._chroot}{path}", data, makepath=True, acl=acl)

    def log_in(self, credential: str) -> None:
        """Write as the user of a digest credential from now on."""
        self._client.add_auth("digest", credential)

    def remove(self, path: str) -> None:
        """Remove a node and those below it."""
        self._client.delete(f"{self._chroot}{path}", recursive=True)

    def put_broker(self, broker_id: int, host: str = "127.0.0.1", port: int = 9092) -> None:
        """Register a broker as alive."""
        self.put(f"/brokers/ids/{broker_id}", f"{host}-1795251453045:{host}:{port}".encode())

    def put_topic(self, topic: str, partition_counts: Mapping[int, int]) -> None:
        """Register a topic with the partition count of each broker."""
        for broker_id, count in partition_counts.items():
            self.put(f"/brokers/topics/{topic}/{broker_id}", str(count).encode())

    def put_many_topics(self, topic_count: int, broker_count: int) -> None:
        """Register topics of three partitions on all brokers, in few requests."""
        self.put("/brokers/topics")
        for topic in range(topic_count):
            requests = self._client.transaction()
            path = f"{self._chroot}/brokers/topics/topic-{topic}"
            requests.create(path)
            for broker_id in range(broker_count):
                requests.create(f"{path}/{broker_id}", b"3")
            requests.commit()

    def __enter__(self) -> TreeWriter:
        self._client.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop()
        self._client.close()
