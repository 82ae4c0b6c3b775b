"""Choice of the replica that serves a range: the leader, or a follower in the rack of the client (KIP-392).

::

    ask the leader, with the rack ──► it serves records itself
         ▲         └─► it names a follower ──► read from that
         │ after FOLLOWED_S                        │ anything but records that follow each other
         └───────────────── read from the leader alone ◄┘

A follower may lag behind the leader, have compacted its log differently, or be wrong. So its response counts
only for what the records in it prove. Everything else is an error, and the leader decides: gaps, ends, starts
and damage of the log, and aborted transactions. The leader then gets no rack, so that it answers itself. If
it names a follower all the same, as a selector of replicas of its own may, that is a failure to retry.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Final

from spark_kafkawire.cluster import Cluster
from spark_kafkawire.errors import LOG, ConnectFailed, KafkaWireError, RequestTimedOut
from spark_kafkawire.kept import Kept
from spark_kafkawire.model import Broker, Leader, TopicPartition
from spark_kafkawire.net.client import Client
from spark_kafkawire.protocol.modern.fetch import FETCH, RACKS_SINCE

from ..task import FOLLOWED

#: Time for which a choice counts, seconds, as that of Java's consumer. Source: ``metadata.max.age.ms``.
FOLLOWED_S: Final = 300.0
#: Followers for the next tasks of this process, by rack and partition of a cluster.
_FOLLOWERS: Final = Kept[tuple[tuple[Broker, ...], str, TopicPartition], Broker]()
#: Followers that did not answer: a stopped broker costs one request timeout, not one per partition.
_UNREACHABLE: Final = Kept[tuple[tuple[Broker, ...], Broker], bool]()
#: Clusters whose brokers know no racks of clients, which is logged once.
_WITHOUT_RACKS: Final = Kept[tuple[Broker, ...], bool](100)


class NearReplica:
    """The replica of one range. ``rack`` is that of the client, ``servers`` identify the cluster."""

    def __init__(
        self, rack: str, partition: TopicPartition, cluster: Cluster, servers: tuple[Broker, ...]
    ) -> None:
        self._rack, self._cluster, self._servers = rack, cluster, servers
        self._partition = partition
        self._key = servers, rack, partition
        self._until_s = math.inf
        #: The follower that is read from; None for the leader.
        self.follower = _FOLLOWERS.get(self._key)
        #: True if the leader is not asked for followers, but for records.
        self.is_alone = False
        if self.follower is not None:
            self._choose(self._reachable(self.follower), FOLLOWED_S)

    @property
    def is_over(self) -> bool:
        """True if it is time to ask the leader again."""
        return time.monotonic() >= self._until_s

    def ask_again(self) -> None:
        """Ask the leader for a follower from here on."""
        self.follower, self.is_alone, self._until_s = None, False, math.inf

    def server(self, leader: Leader) -> Leader:
        """The replica to send the next request to, in place of the leader."""
        if self.follower is not None:
            return replace(leader, broker=self.follower, is_follower=True)
        return leader if self.is_alone else replace(leader, rack=self._rack)

    def connected(self, client: Client) -> None:
        """Read from the leader alone if it is too old to name followers (before 2.4)."""
        if self.is_alone or self.follower is not None or client.version_of(FETCH) >= RACKS_SINCE:
            return
        if _WITHOUT_RACKS.get(self._servers) is None:
            _WITHOUT_RACKS.keep(self._servers, True)
            LOG.warning(
                "%s is older than Kafka 2.4 and names no followers: clientRack has no effect, and reads use "
                "leaders",
                client.broker,
            )
        self._choose(None, math.inf)

    def follow(self, replica_id: int, leader: Leader) -> None:
        """Read from the follower that the leader names, or from the leader alone if there is no such
        broker."""
        try:
            brokers = self._cluster.brokers()
        except KafkaWireError as error:
            self.leave(error)
            return
        result = next((broker for broker in brokers if broker.id == replica_id != leader.broker.id), None)
        # A leader that names one to a client without a rack gives no records itself.
        if not self.is_alone:
            result = self._reachable(result)
        if result is not None:
            _FOLLOWERS.keep(self._key, result, FOLLOWED_S)
        self._choose(result, FOLLOWED_S)

    def leave(self, error: KafkaWireError) -> None:
        """Read from the leader alone after an error of the follower."""
        LOG.info("%s: %s; reading from the leader", self._partition, error)
        _FOLLOWERS.forget(lambda key: key == self._key)
        if isinstance(error, RequestTimedOut | ConnectFailed) and self.follower is not None:
            _UNREACHABLE.keep((self._servers, self.follower), True, FOLLOWED_S)
        self._choose(None, FOLLOWED_S)

    def _reachable(self, follower: Broker | None) -> Broker | None:
        """The follower; None if no task of this process reaches it."""
        return None if follower is None or _UNREACHABLE.get((self._servers, follower)) else follower

    def _choose(self, follower: Broker | None, seconds: float) -> None:
        self.follower, self.is_alone = follower, follower is None
        self._until_s = time.monotonic() + seconds
        if follower is not None:
            FOLLOWED.add(follower)
