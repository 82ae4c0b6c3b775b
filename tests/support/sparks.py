"""Differences between Spark versions that tests need."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

import pyspark
import pytest

VERSION: Final = tuple(int(number) for number in pyspark.__version__.split(".")[:2])


def since_spark(major: int, minor: int, reason: str) -> pytest.MarkDecorator:
    """Skips a test before that version, and says why."""
    return pytest.mark.skipif(
        (major, minor) > VERSION, reason=f"Spark {'.'.join(map(str, VERSION))}: {reason}"
    )


PLANS_ONCE: Final = since_spark(4, 1, "plans a frame again each time that it is used")
STREAM_SINKS: Final = since_spark(4, 1, "has no sinks for Arrow batches")
READ_LIMITS: Final = since_spark(4, 2, "does not tell a stream of a Python source where a batch starts")
AVAILABLE_NOW: Final = since_spark(4, 2, "takes the trigger AvailableNow of a Python source for Once")
MAP_IN_ARROW: Final = pytest.mark.skipif(
    version("pandas").startswith("1."), reason="pyspark needs pandas 2.0 for mapInArrow"
)


def needs(mark: pytest.MarkDecorator) -> None:
    """Skip the test that runs, if the mark would have."""
    if mark.args[0]:
        pytest.skip(mark.kwargs["reason"])
