"""What tests connect with, where options are not what they are about."""

from __future__ import annotations

from spark_kafkawire.net.retry import RetryPolicy
from spark_kafkawire.net.settings import ConnectionSettings
from spark_kafkawire.options import NetOptions
from spark_kafkawire.protocol import v07


def settings_07(timeout_s: float = 30.0) -> ConnectionSettings:
    """How to connect to a 0.7 broker."""
    return ConnectionSettings(v07.DIALECT, timeout_s)


def net_07(timeout_s: float = 30.0, retries: int = 3, backoff_s: float = 0.1) -> NetOptions:
    """The documented defaults for 0.7 brokers, or others."""
    return NetOptions(settings_07(timeout_s), RetryPolicy(retries, backoff_s))
