"""A partition that the real log cleaner went over."""

from __future__ import annotations

from typing import Final

from tests.support import librdkafka
from tests.support.foreign import Record
from tests.support.polling import poll

_CONFIG: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "200",
    "segment.ms": "200",
}
#: 51 records in one batch: the cleaner leaves two, and the batch's last offset goes. Then a batch of one.
WRITTEN: Final = [
    Record(b"a", b"a"),
    *[Record(b"old", b"key")] * 48,
    Record(b"b", b"b"),
    Record(b"old", b"key"),
    Record(b"new", b"key"),
]
#: What is left, as (offset, value); younger records come after it.
COMPACTED: Final = [(0, b"a"), (49, b"b"), (51, b"new")]


def compacted_topic(servers: str) -> str:
    """A topic of one partition whose partition begins with ``COMPACTED``; its name."""
    topic = librdkafka.create_topic(servers, topic_config=_CONFIG)
    librdkafka.produce(servers, topic, WRITTEN[:-1], linger_ms=50)
    librdkafka.produce(servers, topic, WRITTEN[-1:])

    def cleaned() -> bool:
        # The segment that is written to is never cleaned: records make the broker begin another one.
        librdkafka.produce(servers, topic, [Record(b"young", b"young")])
        return [(item.offset, item.value) for item in librdkafka.consume(servers, topic)][:3] == COMPACTED

    poll(cleaned, "the log cleaner's work")
    return topic
