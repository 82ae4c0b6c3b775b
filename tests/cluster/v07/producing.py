"""A message for brokers of 0.7, and who writes it."""

from __future__ import annotations

from typing import Final

from spark_kafkawire.broker import BrokerServer
from spark_kafkawire.net.client import Client
from spark_kafkawire.protocol import v07
from tests.support.settings import settings_07
from tests.support.writing import broker_of

#: One plain message of 15 bytes: "hello".
HELLO: Final = bytes.fromhex("0000000b01003610a68668656c6c6f")


def produce(server: BrokerServer, topic: str, *partitions: int, message_set: bytes = HELLO) -> None:
    """Write to partitions of a topic; an OFFSETS answer proves that all is done."""
    with Client.connect(broker_of(server), settings_07(5.0)) as client:
        for partition in partitions:
            client.send(v07.ProduceRequest(topic, partition, message_set))
        client.request(v07.OffsetsRequest(topic, 0, v07.LATEST_TIME, 1))
