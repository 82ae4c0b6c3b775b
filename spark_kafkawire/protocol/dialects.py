"""The protocol of each generation."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ..model import Generation
from . import v07
from .dialect import Dialect
from .modern.dialect import DIALECT

DIALECTS: Final[Mapping[Generation, Dialect]] = MappingProxyType(
    {dialect.generation: dialect for dialect in (v07.DIALECT, DIALECT)}
)
