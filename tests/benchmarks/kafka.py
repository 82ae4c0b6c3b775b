"""Apache Kafka's own broker for a benchmark, with full JIT."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.interop.apache_kafka import ApacheKafka
from tests.support import certificates

VERSION: Final = "4.1.1"


@contextmanager
def kafka() -> Iterator[str]:
    """A broker's address."""
    with TemporaryDirectory(prefix="kafkawire-bench-") as name:
        tls = Path(name, "tls")
        tls.mkdir()
        with ApacheKafka(VERSION, Path(name), certificates.make(tls), full_jit=True) as broker:
            yield broker.bootstrap_servers()
