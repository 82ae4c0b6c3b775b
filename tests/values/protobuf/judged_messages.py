"""Messages beside what the official runtime makes of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError

from spark_kafkawire.values.faults import Fault

from .drawn_messages import expected, plain_of

#: Faults of messages that the official runtime takes: it looks neither at texts of proto2 nor at times.
OURS_ALONE = {Fault.BAD_UTF8, Fault.NOT_REPRESENTABLE, Fault.TOO_LARGE}


def assert_judged(judge: Any, message: bytes, fault: Fault, value: pa.Scalar) -> Fault:
    """The value is the official one, or both refuse the message. Returns the fault."""
    try:
        official = judge.FromString(message)
    except DecodeError:
        assert fault != Fault.NONE, message
        return fault
    if not official.IsInitialized():
        assert fault == Fault.MISSING_FIELD or fault in OURS_ALONE, (fault, message)
    elif fault == Fault.NONE:
        assert plain_of(value) == expected(official, value.type)
    elif fault == Fault.BAD_WIRE_TYPE:  # the runtime takes a field of the number 0 in an unknown group
        assert _has_zero_field(message), message
    elif (
        fault == Fault.MISSING_FIELD
    ):  # the runtime forgets a message that another member of its oneof replaces
        assert _has_message_in_oneof(judge.DESCRIPTOR), message
    else:
        assert fault in OURS_ALONE, (fault, message)
    return fault


def _has_message_in_oneof(descriptor: Any, seen: frozenset[str] = frozenset()) -> bool:
    """True if a member of a oneof is a message, in this message or in one of its fields."""
    if descriptor.full_name in seen:
        return False
    inside = seen | {descriptor.full_name}
    return any(
        field.containing_oneof is not None or _has_message_in_oneof(field.message_type, inside)
        for field in descriptor.fields
        if field.message_type is not None
    )


def _has_zero_field(message: bytes) -> bool:
    """True if a group may begin in the message, and a field of the number 0 behind it."""
    groups = [place for place, byte in enumerate(message) if byte & 7 == 3]
    return bool(groups) and any(byte < 8 for byte in message[groups[0] + 1 :])
