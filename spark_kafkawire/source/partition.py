"""What Spark carries from the planner to a task."""

from __future__ import annotations

import pickle
from dataclasses import replace

from pyspark.sql.datasource import InputPartition

from ..clients.reading.task import FetchTask
from ..options import ReadOptions


def options_of_tasks(options: ReadOptions) -> ReadOptions:
    """The options as they travel: all but what only planning does, as to log in to ZooKeeper."""
    discovery = replace(options.discovery, zookeeper_auth=None)
    return replace(options, discovery=discovery, key_order=None)


class KafkaWirePartition(InputPartition):
    """What one task reads: one range of one log, or several that are read one after the other. Plain data: it
    is pickled.

    Spark pickles in Python, which looks at the class of each object in it: that costs a third of planning
    where there are a thousand partitions. What it gets are bytes.
    """

    def __init__(self, *tasks: FetchTask) -> None:
        super().__init__(tasks)
        self.tasks = tasks

    def __getstate__(self) -> bytes:
        return pickle.dumps(self.tasks, pickle.HIGHEST_PROTOCOL)

    def __setstate__(self, state: bytes) -> None:
        self.value = self.tasks = pickle.loads(state)

    def __repr__(self) -> str:
        return f"KafkaWirePartition({', '.join(str(task.range) for task in self.tasks)})"
