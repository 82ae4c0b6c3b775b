"""What was decided last of the writes of a name, read without taking the name over: nobody is fenced."""

from __future__ import annotations

from .....cluster.modern.group_offsets import committed_texts
from .....cluster.modern.metadata import Metadata
from .....errors import DeliveryError, quoted
from .....options import NetOptions
from .names import driver_id
from .records import Decision, each_group, parts_of
from .requests import Record, newest


def last_decision(metadata: Metadata, net: NetOptions, prefix: str) -> Decision | None:
    """The decision that counts now; None where there was none yet, or brokers have forgotten it.

    Raises ``OptionError`` (fatal) for records of others, ``DeliveryError`` (fatal) where a driver decided
    anew while the parts were read, and as ``committed_texts``.
    """
    group = driver_id(prefix)
    first = _newest(metadata, net, group)
    if first is None:
        return None
    others = [_newest(metadata, net, each) for each in [*each_group(group, parts_of(first, group))][1:]]
    records = [first, *(each for each in others if each is not None and each.number == first.number)]
    if len(records) <= len(others):
        raise DeliveryError(
            f"group {quoted(group)} has {len(records)} of {len(others) + 1} parts of decision "
            f"{first.number}: a driver decides right now, or brokers have forgotten some; look again"
        )
    return Decision.of(tuple(records), prefix, group)


def _newest(metadata: Metadata, net: NetOptions, group: str) -> Record | None:
    texts = committed_texts(metadata, group, net, require_stable=False)
    return newest(Record(number, text) for number, text in texts)
