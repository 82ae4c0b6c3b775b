"""What batch reads that join a consumer group of Kafka 0.7 use besides ``format("kafkawire")``.

from spark_kafkawire.groups import GroupRead
"""

from __future__ import annotations

from .source.group_read import GroupRead

__all__ = ["GroupRead"]
