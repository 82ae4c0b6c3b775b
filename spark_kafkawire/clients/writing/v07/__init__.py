"""Writing to brokers of Kafka 0.6 and 0.7."""

from .write_partitions import V07WritePartitions

__all__ = ["V07WritePartitions"]
