"""Embedded brokers of 0.7: tests start them, write to them, and wait for their registration; also in a
ZooKeeper that others use, too: a start takes longer than theirs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from spark_kafkawire.broker import (
    BrokerConfig,
    BrokerServer,
    EmbeddedCluster,
    ZooKeeperServer,
)
from spark_kafkawire.cluster.v07.view import view
from spark_kafkawire.options import Discovery

from . import replay
from .polling import poll
from .settings import net_07

#: What the fixture ``start_broker`` of a folder is.
StartBroker = Callable[..., BrokerServer]


def small_broker(log_dir: Path, properties: dict[str, str] | None = None, broker_id: int = 0) -> BrokerConfig:
    """A broker on a port that is free, with three partitions to a topic, who shows each message at once."""
    return BrokerConfig.from_properties(
        {
            "brokerid": str(broker_id),
            "port": "0",
            "log.dir": str(log_dir),
            "num.partitions": "3",
            "log.flush.interval": "1",
            **(properties or {}),
        }
    )


def produce(
    cluster: EmbeddedCluster, topic: str, message_set: bytes, partition: int = 0, broker: int = 0
) -> None:
    """Append to a partition, and wait until the broker has processed it."""
    port = cluster.brokers[broker].port
    assert replay.produce(port, (topic, partition), message_set), f"{topic} {broker}-{partition} took nothing"


def wait_registered(cluster: EmbeddedCluster, topic: str, brokers: int = 1) -> None:
    """So many brokers have it: each registers a new topic some milliseconds after its first message."""
    discovery = Discovery(zookeeper_connect=cluster.zookeeper_connect)

    def is_registered() -> bool:
        holders = {tp.broker for tp in view(discovery, net_07()).partitions if tp.topic == topic}
        return len(holders) == brokers

    poll(is_registered, f"{topic} is registered by {brokers}")


_NUMBERS: Final = itertools.count()


class SharingCluster(EmbeddedCluster):
    """Two brokers on these partitions, under a chroot of their own. Their ZooKeeper is not to be stopped."""

    def __init__(self, zookeeper: ZooKeeperServer, log_dirs: Sequence[Path]) -> None:
        self._connect = f"{zookeeper.connect}/cluster-{next(_NUMBERS)}"
        properties = {"zk.connect": self._connect}
        super().__init__(len(log_dirs), 3, zookeeper=False, log_dirs=log_dirs, properties=properties)

    @property
    def zookeeper_connect(self) -> str:
        """Value for ``zookeeper.connect``."""
        return self._connect
