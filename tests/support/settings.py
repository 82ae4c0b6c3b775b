"""Connection options of tests that are not about options."""

from __future__ import annotations

from spark_kafkawire.model import Broker, Generation
from spark_kafkawire.net.retry import RetryPolicy
from spark_kafkawire.net.settings import ConnectionSettings
from spark_kafkawire.options import NetOptions


def settings_07(timeout_s: float = 30.0) -> ConnectionSettings:
    """Settings of connections to a 0.7 broker."""
    return ConnectionSettings(Generation.V07, timeout_s, client_id="spark-kafkawire")


def settings_modern(timeout_s: float = 30.0) -> ConnectionSettings:
    """Settings of connections to a broker of Kafka 0.8 or later."""
    return ConnectionSettings(Generation.MODERN, timeout_s, client_id="spark-kafkawire")


def net_07(
    timeout_s: float = 30.0, retries: int = 3, backoff_s: float = 0.1, retry_timeout_s: float = 0.0
) -> NetOptions:
    """The documented defaults for 0.7 brokers, but for brokerDownTimeout, or others."""
    return NetOptions(settings_07(timeout_s), RetryPolicy(retries, backoff_s, retry_timeout_s))


def net_modern(
    timeout_s: float = 30.0, retries: int = 3, backoff_s: float = 0.1, retry_timeout_s: float = 0.0
) -> NetOptions:
    """The documented defaults for brokers of Kafka 0.8 and later, but for brokerDownTimeout, or others."""
    return NetOptions(settings_modern(timeout_s), RetryPolicy(retries, backoff_s, retry_timeout_s))


def servers(bootstrap_servers: str) -> tuple[Broker, ...]:
    """The brokers of ``kafka.bootstrap.servers``, as options give them."""
    addresses = [server.split(":") for server in bootstrap_servers.split(",")]
    return tuple(Broker(-1 - index, host, int(port)) for index, (host, port) in enumerate(addresses))
