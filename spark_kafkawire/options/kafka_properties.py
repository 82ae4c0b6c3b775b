"""Options ``kafka.*`` of both generations that are not supported here: properties of Kafka's Java clients.

Supported properties are rows of ``OPTIONS``. Some others are refused, as Spark refuses them, because they
would change the meaning of a query; the rest is ignored with one warning.
"""

from __future__ import annotations

import functools
from typing import Final

from ..errors import LOG, OptionError, printable

PREFIX: Final = "kafka."

_NO_DESERIALIZERS: Final = "keys and values are bytes here; cast or decode the columns"
_NO_SERIALIZERS: Final = "keys and values are written as bytes; cast or encode the columns"
_ALWAYS_REFUSED: Final = {
    "interceptor.classes": "no Java classes are run here, and interceptors would break what a query reads; "
    "leave it out",
}
#: What to do instead of setting a property that a read refuses, by its name without ``kafka.``.
_REFUSED_BY_READS: Final = {
    **_ALWAYS_REFUSED,
    "auto.offset.reset": "startingOffsets says where a query starts (by default a batch at the "
    "earliest offset, a stream at the end), and failOnDataLoss what happens where offsets are gone; leave it "
    "out",
    "key.deserializer": _NO_DESERIALIZERS,
    "value.deserializer": _NO_DESERIALIZERS,
    "transactional.id": "it is for writes; leave it out",
    "enable.auto.commit": "a read commits no offsets; its query knows what it has read; leave it out, or set "
    "commitOffsets=true in a stream",
}
#: The same of a write.
_REFUSED_BY_WRITES: Final = {
    **_ALWAYS_REFUSED,
    "key.serializer": _NO_SERIALIZERS,
    "value.serializer": _NO_SERIALIZERS,
}


def is_kafka_property(name: str) -> bool:
    """True if an option, in any case, is a property of Kafka's clients."""
    return name.lower().startswith(PREFIX)


def pass_over(name: str, hint: str = "", *, read: bool) -> None:
    """Accept a property that this package ignores, with one warning in this process. Its value may be a
    secret, so it is not shown. Raises ``OptionError`` (fatal) for properties that Spark refuses on this
    side."""
    refused = _REFUSED_BY_READS if read else _REFUSED_BY_WRITES
    advice = refused.get(name.lower().removeprefix(PREFIX))
    if advice is not None:
        raise OptionError(f"option {printable(name)} is not supported: {advice}")
    _warn(name, hint)


@functools.cache
def _warn(name: str, hint: str) -> None:
    LOG.warning("option %s has no effect in kafkawire and is ignored%s", printable(name), hint)


@functools.cache
def pass_over_in_batch(name: str) -> None:
    """Accept an option of streams in a batch read, with one warning in this process."""
    LOG.warning("option %s is for readStream and has no effect in a batch read", name)
