"""What streaming queries use besides ``format("kafkawire")``.

from spark_kafkawire.streaming import GroupOffsets, offsets_behind_latest
"""

from __future__ import annotations

from .source.group_offsets import GroupOffsets, offsets_behind_latest

__all__ = ["GroupOffsets", "offsets_behind_latest"]
