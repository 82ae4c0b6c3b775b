"""Apache Kafka's own broker for a benchmark, with full JIT."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.interop.apache_kafka import ApacheKafka
from tests.support import certificates, librdkafka

from .writing import PARTITIONS

VERSION: Final = "4.1.1"


@contextmanager
def kafka() -> Iterator[str]:
    """A broker's address."""
    with TemporaryDirectory(prefix="kafkawire-bench-") as name:
        tls = Path(name, "tls")
        tls.mkdir()
        with ApacheKafka(VERSION, Path(name), certificates.make(tls), full_jit=True) as broker:
            yield broker.bootstrap_servers()


def new_topic(servers: str) -> str:
    """One that no write had, whose files are gone as soon as it is deleted."""
    return librdkafka.create_topic(servers, PARTITIONS, None, {"file.delete.delay.ms": "0"})
