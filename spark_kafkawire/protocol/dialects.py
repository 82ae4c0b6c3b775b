"""The protocol of each wire format, of which a process imports those that it speaks."""

from __future__ import annotations

import functools
import importlib
from typing import Final

from ..model import WireFormat
from .dialect import Dialect

_HOMES: Final = {WireFormat.V07: "v07", WireFormat.PROPOSAL: "proposal", WireFormat.MODERN: "modern"}


@functools.cache
def dialect_of(wire_format: WireFormat) -> Dialect:
    """What is spoken in it."""
    dialect: Dialect = importlib.import_module(f".{_HOMES[wire_format]}", __package__).DIALECT
    return dialect
