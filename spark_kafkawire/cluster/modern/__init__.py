"""Clusters of Kafka 0.8 and later: what ``cluster.Cluster`` asks of their brokers."""

from .cluster import Cluster

__all__ = ["Cluster"]
