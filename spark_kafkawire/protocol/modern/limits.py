"""How long replies may be, and values that several messages share."""

from __future__ import annotations

import uuid
from typing import Final

#: Longest reply that describes topics or partitions, bytes: enough for a million partitions.
REPLY_BYTES_MAX: Final = 64 << 20
#: Longest reply of a fixed kind, bytes; some of them come before the broker has proven who it is.
SMALL_REPLY_BYTES_MAX: Final = 1 << 20
#: Largest record batch unless a request allows another, bytes. Brokers take 1 MiB as they come
#: (``message.max.bytes``); a fetch is answered with one whole batch, however small its limits.
BATCH_BYTES_MAX: Final = 64 << 20
#: Room for what stands around the records of one partition in a FETCH reply, bytes: 64 fixed ones,
#: tagged fields, and some thousand aborted transactions of 16.
FETCH_PARTITION_BYTES_MAX: Final = 64 << 10

#: Topic id of a topic that has none, or whose id is not known.
NO_TOPIC_ID: Final = uuid.UUID(int=0)


def reply_bytes_max(_: object) -> int:
    """The bound of replies that grow with the number of topics and partitions."""
    return REPLY_BYTES_MAX


def small_reply_bytes_max(_: object) -> int:
    """The bound of replies that hardly grow."""
    return SMALL_REPLY_BYTES_MAX
