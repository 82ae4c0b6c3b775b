"""Run one broker: ``python -m spark_kafkawire.broker --set brokerid=0 --set log.dir=DIR ...``

It prints one line on stdout when it is ready, and ends on SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ..errors import KafkaWireError, OptionError, quote
from ..records.arrays import keep_memory
from .config import BrokerConfig
from .server import BrokerServer

END_SIGNALS: Final = {signal.SIGTERM, signal.SIGINT}
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a broker until a signal stops it; returns the exit code of the process."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    keep_memory()
    try:
        config = BrokerConfig.from_properties(_parse(argv))
        with _stop_signal() as wait, BrokerServer(config) as server:
            print(f"broker {config.broker_id} listens on {server.address}", flush=True)
            wait()
    except KafkaWireError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, OptionError) else EXIT_FAILED
    return 0


@contextlib.contextmanager
def _stop_signal() -> Iterator[Callable[[], object]]:
    """A function that waits for one of the signals, also for one that has come before.

    Not ``sigwait``: numpy starts threads at import, and one of them may take a signal before this thread
    waits for it. A process that a shell started in the background, with SIGINT ignored, would then never end.
    """
    ended, end = socket.socketpair()
    with ended, end:
        end.setblocking(False)
        wakeup = signal.set_wakeup_fd(end.fileno())
        actions = {item: signal.signal(item, lambda *_: None) for item in END_SIGNALS}
        try:
            yield lambda: ended.recv(1)
        finally:
            for item, action in actions.items():
                signal.signal(item, action)
            signal.set_wakeup_fd(wakeup)


def _parse(argv: Sequence[str] | None) -> dict[str, str]:
    parser = argparse.ArgumentParser(prog="python -m spark_kafkawire.broker", description=__doc__)
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a property of Kafka 0.7.2's broker"
    )
    properties: dict[str, str] = {}
    for text in parser.parse_args(argv).set:
        name, equals, value = text.partition("=")
        if not equals or name in properties:
            raise OptionError(f"--set {quote(text)} must be NAME=VALUE, once for each name")
        properties[name] = value
    return properties


if __name__ == "__main__":
    sys.exit(main())
