"""Fixtures for reads of 0.7: the embedded broker on a folder of logs, and a fetcher for a range of one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_kafkawire.broker import BrokerConfig, BrokerServer, Fault
from spark_kafkawire.clients.reading.fetcher import Fetcher
from spark_kafkawire.clients.reading.task import FetchTask
from spark_kafkawire.cluster.v07.cluster import V07Cluster
from spark_kafkawire.model import Broker, Leader, OffsetRange, TopicPartition
from spark_kafkawire.net.client import Client
from spark_kafkawire.net.pool import POOL, Pool
from spark_kafkawire.options import Discovery, FetchOptions, NetOptions
from spark_kafkawire.protocol.v07 import OffsetsRequest, ProduceRequest
from spark_kafkawire.records.message_set.encoding import encode
from tests.support.settings import net_07, settings_07

NET = net_07(5.0, retries=3, backoff_s=0.001)
PARTITION = TopicPartition("t", 0, 0)


@contextlib.contextmanager
def serving(log_dir: Path, *faults: Fault, **properties: str) -> Iterator[Broker]:
    """A broker on ``log_dir`` that fails as the test says."""
    names = {name.replace("_", "."): value for name, value in properties.items()}
    config = BrokerConfig.from_properties(
        {"brokerid": "0", "port": "0", "log.dir": str(log_dir), "log.flush.interval": "1", **names}
    )
    with BrokerServer(config, faults=faults) as server:
        yield Broker(0, "127.0.0.1", server.port)


def produce(broker: Broker, *values: bytes, compression: str = "none") -> int:
    """Append one message set to the log; where the log ends afterwards."""
    message_set = bytes(encode(pa.array(values, pa.binary()), compression))
    with Client.connect(broker, settings_07(5.0)) as client:
        client.send(ProduceRequest(PARTITION.topic, PARTITION.partition, message_set))
        end: int = client.request(OffsetsRequest(PARTITION.topic, PARTITION.partition, -1, 1)).offsets[0]
    return end


def task(broker: Broker, stop: int, start: int = 0, **options: Any) -> FetchTask:
    return FetchTask(OffsetRange(PARTITION, start, stop), Leader(broker), **options)


def fetcher_of(task: FetchTask, options: FetchOptions, net: NetOptions, connections: Pool = POOL) -> Fetcher:
    cluster = V07Cluster(Discovery(), net, (task.leader.broker,))
    return Fetcher(task, cluster, options, net, connections=connections)
