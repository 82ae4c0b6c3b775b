"""Brokers for the tests of this folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_kafkawire.broker import BrokerConfig, BrokerServer

StartBroker = Callable[..., BrokerServer]


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[StartBroker]:
    """Start brokers in this process that end with the test; the logs of all are in ``tmp_path``."""
    with contextlib.ExitStack() as stack:

        def start(properties: dict[str, str] | None = None, **arguments: Any) -> BrokerServer:
            config = BrokerConfig.from_properties(
                {
                    "brokerid": "0",
                    "port": "0",
                    "log.dir": str(tmp_path),
                    "num.partitions": "3",
                    "log.flush.interval": "1",
                    **(properties or {}),
                }
            )
            return stack.enter_context(BrokerServer(config, **arguments))

        yield start
