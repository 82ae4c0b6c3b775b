"""Writing to brokers of Kafka 0.6 and 0.7."""

from .targets import Targets

__all__ = ["Targets"]
