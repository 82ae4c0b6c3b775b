"""API for streaming queries, besides ``format("kafkawire")``.

from spark_kafkawire.streaming import GroupOffsets, offsets_behind_latest, progress_offsets
from spark_kafkawire.streaming import stop_between_batches
"""

from __future__ import annotations

from .source.group_offsets import GroupOffsets, offsets_behind_latest, progress_offsets
from .source.v07 import stop_between_batches

__all__ = ["GroupOffsets", "offsets_behind_latest", "progress_offsets", "stop_between_batches"]
