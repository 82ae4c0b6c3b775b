"""Clusters of Kafka 0.6 and 0.7: what ``cluster.Cluster`` asks of ZooKeeper and of brokers."""

from .cluster import Cluster

__all__ = ["Cluster"]
