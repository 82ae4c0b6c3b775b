"""The dialect of each wire format: Kafka 0.7, the proposal of 2012, and modern Kafka (0.8 and later).

A process imports only the dialects that it uses.
"""

from __future__ import annotations

import functools
import importlib
from typing import Final

from ..model import WireFormat
from .dialect import Dialect

_HOMES: Final = {WireFormat.V07: "v07", WireFormat.PROPOSAL: "proposal", WireFormat.MODERN: "modern"}


@functools.cache
def dialect_of(wire_format: WireFormat) -> Dialect:
    """The dialect of a wire format."""
    dialect: Dialect = importlib.import_module(f".{_HOMES[wire_format]}", __package__).DIALECT
    return dialect
