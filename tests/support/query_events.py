"""Events of streaming queries for listeners, in the form of Spark Connect, without a JVM."""

from __future__ import annotations

import uuid
from typing import Any, Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryTerminatedEvent,
    SourceProgress,
    StreamingQueryProgress,
)

PYTHON_SOURCE: Final = (
    "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamWithAdmissionControl@1"
)
_NO_BATCH: Final[dict[str, Any]] = {
    "numInputRows": 0,
    "inputRowsPerSecond": 0.0,
    "processedRowsPerSecond": 0.0,
}


class Run:
    """A query of Spark's, as its events tell of it."""

    def __init__(self, name: str | None = None, id_: uuid.UUID | None = None) -> None:
        self.name, self.id, self.runId = name, id_ or uuid.uuid4(), uuid.uuid4()
        self.lastProgress: StreamingQueryProgress | None = None

    def progress(self, *sources: SourceProgress, second: int = 0) -> QueryProgressEvent:
        event = QueryProgressEvent.fromJson(
            {
                "progress": {
                    "id": str(self.id),
                    "runId": str(self.runId),
                    "name": self.name,
                    "timestamp": f"2026-01-01T00:00:{second:02}.000Z",
                    "batchId": 7,
                    "batchDuration": 1,
                    "stateOperators": [],
                    "sources": [source.__dict__["_jdict"] for source in sources],
                    "sink": {"description": "noop", "numOutputRows": -1},
                    **_NO_BATCH,
                }
            }
        )
        self.lastProgress = event.progress
        return event

    def idle(self) -> QueryIdleEvent:
        return QueryIdleEvent(self.id, self.runId, "2026-01-01T00:00:00.000Z")

    def terminated(self, error: str | None = None) -> QueryTerminatedEvent:
        return QueryTerminatedEvent(self.id, self.runId, error, None)


def source(end: Any, latest: Any = None, description: str = PYTHON_SOURCE) -> SourceProgress:
    return SourceProgress.fromJson(
        {
            "description": description,
            "startOffset": None,
            "endOffset": end,
            "latestOffset": latest,
            **_NO_BATCH,
        }
    )
