"""API for batch reads that join a consumer group of Kafka 0.7, besides ``format("kafkawire")``.

from spark_kafkawire.groups import GroupRead
"""

from __future__ import annotations

from .source.v07 import GroupRead

__all__ = ["GroupRead"]
