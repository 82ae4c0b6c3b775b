"""The embedded broker answers as the real 0.7.2 broker did, byte for byte, closes included."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from spark_kafkawire.broker import BrokerConfig, BrokerServer
from tests.support import golden, replay

GROUPS: Final = ("produce", "multiproduce", "protocol", "fetch", "multifetch", "offsets")
#: It reads a log that only an exchange made that is not among the recordings.
NOT_REPRODUCED: Final = {"multifetch/two_good"}

#: When the exchanges about time were recorded, ms: an hour before what they take for the future.
RECORDED_AT_MS: Final = 1795251708000
#: Modification times of the three files of lab-segs-0, s.
MODIFIED_S: Final = (1795240908, 1795244508, 1795248108)

LIKE_THE_RECORDED: Final = {
    "num.partitions": "3",
    "log.file.size": "65536",
    "log.flush.interval": "1",
    "log.retention.size": "400000",
    "topic.partition.count.map": "lab-five:5",
}
LIMITED: Final = {
    "num.partitions": "3",
    "log.flush.interval": "1000",
    "log.default.flush.interval.ms": "1500",
    "max.message.size": "1000",
    "max.socket.request.bytes": "5000",
    "max.topic.name.length": "20",
}
EXCHANGES: Final = tuple(exchange for exchange in golden.exchanges() if exchange.group in GROUPS)


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    """What differed in each exchange; all were replayed in order, as each builds on earlier ones."""
    with contextlib.ExitStack() as stack:
        servers = []
        for broker_id, properties in enumerate((LIKE_THE_RECORDED, LIKE_THE_RECORDED, LIMITED)):
            log_dir = tmp_path_factory.mktemp(f"broker-{broker_id}")
            if broker_id == 0:
                golden.copy_segments(log_dir, "runB-broker0/lab-fetch-0", "runB-broker0/lab-segs-0")
            config = BrokerConfig.from_properties(
                {"brokerid": str(broker_id), "port": "0", "log.dir": str(log_dir), **properties}
            )
            servers.append(stack.enter_context(BrokerServer(config, clock_ms=lambda: RECORDED_AT_MS)))
        set_modification_times(servers[0].config.log_dir / "lab-segs-0")
        yield {
            exchange.name: replay.differences(
                exchange,
                servers[exchange.broker_id].port,
                servers[exchange.broker_id].logs.flush_all,
            )
            for exchange in EXCHANGES
        }


def set_modification_times(folder: Path) -> None:
    for path, modified_s in zip(sorted(folder.iterdir()), MODIFIED_S, strict=True):
        os.utime(path, (modified_s, modified_s))


@pytest.mark.parametrize("name", [exchange.name for exchange in EXCHANGES])
def test_the_recorded_exchange_is_reproduced(replayed: dict[str, list[str]], name: str) -> None:
    if name in NOT_REPRODUCED:
        assert replayed[name]
    else:
        assert not replayed[name]


def test_all_recorded_exchanges_but_one_are_reproduced(replayed: dict[str, list[str]]) -> None:
    assert len(replayed) == 178
    assert {name for name, found in replayed.items() if found} == NOT_REPRODUCED
