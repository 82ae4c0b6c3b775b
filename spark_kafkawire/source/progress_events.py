"""A listener to streaming queries that gets each progress of the JVM as one text.

pyspark's own asks the JVM for each field of a progress.
"""

from __future__ import annotations

import json
from typing import Any, Final

from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryIdleEvent,
    QueryProgressEvent,
    StreamingQueryListener,
)

_OFFSETS: Final = ("startOffset", "endOffset", "latestOffset")


class ProgressListener(StreamingQueryListener):
    """Base of the package's listeners. A client of Spark Connect gets its events without a JVM."""

    @property
    def _jlistener(self) -> Any:
        if not hasattr(self, "_jlistenerobj"):
            from pyspark import SparkContext  # a client of Spark Connect has none

            self._jlistenerobj = SparkContext._jvm.PythonStreamingQueryListenerWrapper(_OneText(self))  # type: ignore[union-attr]
        return self._jlistenerobj

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Does nothing: a query without new rows stays where it is."""


class _OneText(JStreamingQueryListener):
    def onQueryProgress(self, jevent: Any) -> None:
        progress = json.loads(jevent.progress().json())
        for source in progress["sources"]:
            # Older pysparks write a dictionary as Python does.
            source |= {name: json.dumps(source[name]) for name in _OFFSETS}
        self.pylistener.onQueryProgress(QueryProgressEvent.fromJson({"progress": progress}))
