"""Writing to brokers of Kafka 0.8 and later."""

from .targets import Targets

__all__ = ["Targets"]
