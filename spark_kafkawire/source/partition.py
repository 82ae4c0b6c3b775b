"""What Spark carries from the planner to a task."""

from __future__ import annotations

from pyspark.sql.datasource import InputPartition

from ..clients.reading.fetcher import FetchTask


class KafkaWirePartition(InputPartition):
    """One range of one log. Plain data: it is pickled."""

    def __init__(self, task: FetchTask) -> None:
        super().__init__(task)
        self.task = task

    def __repr__(self) -> str:
        return f"KafkaWirePartition({self.task.range})"
