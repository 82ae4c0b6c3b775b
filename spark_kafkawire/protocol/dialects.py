"""The protocol of each wire format."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ..model import WireFormat
from . import proposal, v07
from .dialect import Dialect
from .modern.dialect import DIALECT

DIALECTS: Final[Mapping[WireFormat, Dialect]] = MappingProxyType(
    {WireFormat.V07: v07.DIALECT, WireFormat.PROPOSAL: proposal.DIALECT, WireFormat.MODERN: DIALECT}
)
