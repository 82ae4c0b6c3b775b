"""The recorded topic of six logs with plain messages (``golden.CORPUS``), from its manifest."""

from __future__ import annotations

from typing import Final

from .corpus import partitions_of

TOPIC: Final = "debian-plain"
_LOGS: Final = {f"{log['broker']}-{log['partition']}": log for log in partitions_of(TOPIC)}
#: Its logs as broker-partition, in their order.
NAMES: Final = list(_LOGS)
#: Messages of all logs.
COUNT: Final = sum(log["messages"] for log in _LOGS.values())
#: The logs' ends, and where their second segments start, in bytes.
ENDS: Final = {name: sum(item["size"] for item in log["segments"]) for name, log in _LOGS.items()}
SECONDS: Final = {name: log["segments"][1]["start_offset"] for name, log in _LOGS.items()}
