"""Isolation levels, which Fetch and ListOffsets have in common."""

from __future__ import annotations

from typing import Final

#: Gives all records.
READ_UNCOMMITTED: Final = 0
#: Ends at the first open transaction, and names the aborted ones.
READ_COMMITTED: Final = 1
