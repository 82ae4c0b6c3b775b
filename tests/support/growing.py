"""A topic that grows while a test writes to it, on noida-db."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from spark_kafkawire.records.murmur2 import positive_hashes

from . import librdkafka
from .foreign import Record
from .noida import NoidaBroker
from .writing import binary

#: When the first layout's first records are from.
T0: Final = 1_700_000_000_000
KEYS: Final = [b"key %d" % number for number in range(40)]
HASHES: Final = dict(zip(KEYS, positive_hashes(binary(KEYS)).tolist(), strict=True))


class Grown:
    """A topic that grows, and what was written to it: each key's records say how many were before."""

    def __init__(self, noida: NoidaBroker, partitions: int) -> None:
        self.noida, self.servers = noida, noida.bootstrap_servers
        self.topic = noida.create_topic(partitions=partitions)
        self.layouts: list[dict[str, object]] = [{"partitions": partitions}]
        self.written = dict.fromkeys(KEYS, 0)

    @property
    def count(self) -> int:
        count = self.layouts[-1]["partitions"]
        assert isinstance(count, int)
        return count

    def grow(self, partitions: int) -> None:
        stood = {str(at): librdkafka.offsets(self.servers, self.topic, at)[1] for at in range(self.count)}
        self.noida.add_partitions(self.topic, partitions)
        self.layouts.append({"partitions": partitions, "boundaries": stood})

    def write(self, keys: Sequence[bytes] = KEYS, count: int | None = None, time_ms: int = T0) -> None:
        """A record of each key, put where one puts it who knows ``count`` partitions."""
        records = []
        for key in keys:
            place = HASHES[key] % (count or self.count)
            records.append(Record(b"%d" % self.written[key], key, (), time_ms, partition=place))
            self.written[key] += 1
        librdkafka.produce(self.servers, self.topic, records)

    def options(self, **given: str) -> dict[str, str]:
        return {"subscribe": self.topic, "keyOrder": "true", "partitionLayouts": self.text, **given}

    @property
    def text(self) -> str:
        return json.dumps({self.topic: self.layouts})

    @property
    def counts_alone(self) -> str:
        return json.dumps({self.topic: [{"partitions": each["partitions"]} for each in self.layouts]})


def grown(noida: NoidaBroker, *counts: int) -> Grown:
    """Two records of each key in each layout."""
    topic = Grown(noida, counts[0])
    for count in counts:
        if count != topic.count:
            topic.grow(count)
        for _ in range(2):
            topic.write(time_ms=T0 + 1000 * len(topic.layouts))
    return topic
