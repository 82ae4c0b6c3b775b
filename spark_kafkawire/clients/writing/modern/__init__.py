"""Writing to brokers of modern Kafka (0.8 to 4.x)."""

from .write_partitions import ModernWritePartitions

__all__ = ["ModernWritePartitions"]
