from __future__ import annotations
from dataclasses import dataclass
from .types import JsonType, arrow_type_of
@dataclass
class Schema:
    root: JsonType
    @property
    def arrow_type(self): return arrow_type_of(self.root)
