"""What ``acks`` of a Produce request means."""

from __future__ import annotations

from typing import Final

#: ``acks``: the broker does not answer.
ACKS_NONE: Final = 0
#: ``acks``: the leader has the records.
ACKS_LEADER: Final = 1
#: ``acks``: all replicas that are in sync have the records.
ACKS_ALL: Final = -1
