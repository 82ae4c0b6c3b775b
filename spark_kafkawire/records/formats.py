"""Record formats by name. A format is the functions that its bytes need; callers know no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ..protocol.primitives import Buffer
from . import message_set


@dataclass(frozen=True, slots=True)
class Format:
    """One layout of record bytes.

    ``decode`` gives columns of the whole messages at the start of a buffer, ``entry_size`` the
    size of the message that begins it, ``encode_sets`` bytes of an Arrow array. Their contracts
    are those of the functions in ``message_set``.
    """

    name: str
    decode: Callable[..., message_set.Decoded]
    entry_size: Callable[[Buffer], int | None]
    encode_sets: Callable[..., Iterator[message_set.EncodedSet]]


MESSAGE_SET: Final = Format(
    "message_set", message_set.decode, message_set.entry_size, message_set.encode_sets
)

FORMATS: Final[Mapping[str, Format]] = MappingProxyType({MESSAGE_SET.name: MESSAGE_SET})
