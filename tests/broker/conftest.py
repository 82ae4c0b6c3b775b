"""Brokers for the tests of this folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_kafkawire.broker import BrokerServer
from tests.support.embedded import StartBroker, small_broker


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[StartBroker]:
    """Start brokers in this process that end with the test; the logs of all are in ``tmp_path``."""
    with contextlib.ExitStack() as stack:

        def start(properties: dict[str, str] | None = None, **arguments: Any) -> BrokerServer:
            config = small_broker(tmp_path, properties)
            return stack.enter_context(BrokerServer(config, **arguments))

        yield start
