"""Processor time that a client spends on each broker of a poll: over a new connection, and over a kept one.

    python -m tests.benchmarks.connections PROTOCOL PEM

One server plays all brokers, in a process of its own that this command starts.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from spark_kafkawire.model import Broker
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.options import ReadOptions
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from tests.net.login_broker import SECRET, USER, login_broker
from tests.net.modern_peers import broker
from tests.net.peers import Peer
from tests.net.tls_peers import server_of, serving
from tests.support.certificates import SERVER_NAME, make

from .measure import Figure, print_table
from .scale import CpuClock
from .session import Bench

_PASSWORD: Final = SECRET.replace("\\", "\\\\")
_LOGIN: Final = {
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": f'ScramLoginModule required username="{USER}" password="{_PASSWORD}";',
}
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def _serve(protocol: str, pem: str) -> None:
    script = login_broker() if protocol.startswith("SASL") else broker()
    with Peer(serving(server_of(Path(pem)), script) if protocol.endswith("SSL") else script) as peer:
        print(peer.broker.port, flush=True)
        sys.stdin.read()


def _measured(protocol: str, port: int, authority: Path, count: int) -> tuple[float, float]:
    """Milliseconds for each broker: with a new connection, and with a kept one."""
    options = {
        "kafka.bootstrap.servers": f"{SERVER_NAME}:{port}",
        "subscribe": "t",
        "kafka.security.protocol": protocol,
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(authority),
        **(_LOGIN if protocol.startswith("SASL") else {}),
    }
    if not protocol.endswith("SSL"):
        options = {name: value for name, value in options.items() if ".ssl." not in name}
    settings = ReadOptions.parse(options).net.connection
    pool, polls = Pool(), [CpuClock(), CpuClock()]
    with pool.lend(Broker(-1, SERVER_NAME, port), settings) as client:
        client.request(MetadataRequest(topics=()))
    for poll in polls:
        with poll.running():
            for number in range(count):
                with pool.lend(Broker(number, SERVER_NAME, port), settings) as client:
                    client.request(MetadataRequest(topics=()))
    pool.close_idle()
    new, kept = (poll.seconds / count * 1e3 for poll in polls)
    return new, kept


def connections(bench: Bench) -> Iterator[Figure]:
    """Milliseconds of a new and of a kept connection, by protocol."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        files = make(Path(folder))
        for protocol in _PROTOCOLS:
            command = [sys.executable, "-m", __name__, protocol, str(files.server)]
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            ) as server:
                assert server.stdin is not None
                assert server.stdout is not None
                port = int(server.stdout.readline())
                new, kept = _measured(protocol, port, files.authority, bench.size)
                server.stdin.close()
            rows.append([protocol, f"{new:.2f}", f"{kept:.2f}"])
            yield Figure(f"new connection, {protocol}", "ms", new)
            yield Figure(f"kept connection, {protocol}", "ms", kept)
    print_table(["kafka.security.protocol", "new connection, ms", "kept connection, ms"], rows)


if __name__ == "__main__":
    _serve(*sys.argv[1:])
