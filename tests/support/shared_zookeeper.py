"""Embedded brokers in a ZooKeeper that others use, too: a start takes longer than theirs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from spark_kafkawire.broker import EmbeddedCluster, ZooKeeperServer

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
