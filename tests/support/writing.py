"""Fixtures for tests of writing: options, columns, and the content of a broker's logs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from spark_kafkawire.broker import BrokerServer
from spark_kafkawire.model import Broker
from spark_kafkawire.options import WriteOptions
from spark_kafkawire.records.message_set.decoding import decode
from tests.support import replay


def write_options(*servers: BrokerServer, **raw: object) -> WriteOptions:
    """Options of a write to these brokers; deadlines are short, names as Python writes them."""
    values: dict[str, Any] = {"requestTimeout": "5s", "retries": "1", "retryBackoff": "1ms", **raw}
    if servers:
        values["broker.list"] = broker_list(*servers)
    return WriteOptions.parse({name.replace("__", "."): str(value) for name, value in values.items()})


def broker_list(*servers: BrokerServer) -> str:
    """``id:host:port,id:host:port``"""
    return ",".join(f"{server.config.broker_id}:{server.address}" for server in servers)


def broker_of(server: BrokerServer) -> Broker:
    """The broker as clients see it."""
    return Broker(server.config.broker_id, server.config.hostname, server.port)


def binary(values: Iterable[bytes | None]) -> pa.Array:
    """A column of bytes."""
    return pa.array(list(values), pa.binary())


def stored(port: int, topic: str, partition: int) -> list[bytes]:
    """All messages of a partition, in order, as the codec reads them; it must be in one segment."""
    log = topic, partition
    data = replay.fetch(port, log, 0, replay.end_offset(port, log))
    values: list[bytes] = []
    while data:
        decoded = decode(data, 0)
        assert decoded.columns.values is not None
        values += decoded.columns.values.to_pylist()
        data = data[decoded.size :]
    return values
