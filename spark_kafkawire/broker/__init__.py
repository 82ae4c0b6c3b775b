"""The embedded Kafka 0.7.2 broker: for quick starts and tests, on loopback.

python -m spark_kafkawire.broker --set brokerid=0 --set port=9092 --set log.dir=DIR
EmbeddedCluster(brokers=2, partitions=3)      brokers and ZooKeeper in processes of their own
BrokerServer(config, faults=[...])            one broker in this process, for tests

server ─► handlers ─► log_directory ─► log          registry ─► ZooKeeper
"""

from .cluster import EmbeddedBroker, EmbeddedCluster, ZooKeeperServer
from .config import BrokerConfig
from .server import BrokerServer, Fault, FaultKind

__all__ = [
    "BrokerConfig",
    "BrokerServer",
    "EmbeddedBroker",
    "EmbeddedCluster",
    "Fault",
    "FaultKind",
    "ZooKeeperServer",
]
