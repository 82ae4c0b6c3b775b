"""``kafka.*``: properties of Kafka's own clients, which Spark's connector hands on to them.

Those that mean something here are rows of ``OPTIONS``. Of the others, some are refused because they
would change what a query means, as Spark refuses them; the rest is passed over with one warning.
"""

from __future__ import annotations

import functools
import logging
from typing import Final

from ..errors import OptionError, shown

_log = logging.getLogger("spark_kafkawire")

PREFIX: Final = "kafka."

_NO_DESERIALIZERS: Final = "keys and values are bytes here; cast or decode the columns"
_NO_SERIALIZERS: Final = "keys and values are written as bytes; cast or encode the columns"
_ALWAYS_REFUSED: Final = {
    "interceptor.classes": "no Java classes are run here, and interceptors would break what a query reads",
}
#: What to do instead of setting a property that a read refuses, by its name without ``kafka.``.
_REFUSED_BY_READS: Final = {
    **_ALWAYS_REFUSED,
    "auto.offset.reset": "set startingOffsets to earliest or latest: each query says itself where it "
    "starts, and failOnDataLoss what happens where offsets are gone",
    "key.deserializer": _NO_DESERIALIZERS,
    "value.deserializer": _NO_DESERIALIZERS,
    "transactional.id": "it is for writes",
    "enable.auto.commit": "a read commits no offsets; its query knows what it has read",
}
#: The same of a write.
_REFUSED_BY_WRITES: Final = {
    **_ALWAYS_REFUSED,
    "key.serializer": _NO_SERIALIZERS,
    "value.serializer": _NO_SERIALIZERS,
}


def is_kafka_property(name: str) -> bool:
    """Whether an option, in any case, is a property of Kafka's clients."""
    return name.lower().startswith(PREFIX)


def pass_over(name: str, hint: str = "", *, read: bool) -> None:
    """Take a property that nothing here reads, with one warning in this process; its value may be a
    secret and is not shown. Raises ``OptionError`` (fatal) for those that Spark refuses on this side."""
    refused = _REFUSED_BY_READS if read else _REFUSED_BY_WRITES
    advice = refused.get(name.lower().removeprefix(PREFIX))
    if advice is not None:
        raise OptionError(f"option {shown(name)} is not supported: {advice}")
    _warn(name.lower(), hint)


@functools.cache
def _warn(name: str, hint: str) -> None:
    _log.warning("option %s means nothing to kafkawire and is passed over%s", shown(name), hint)
