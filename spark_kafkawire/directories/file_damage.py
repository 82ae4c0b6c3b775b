"""The error for the small files beside a log, such as checkpoints, whose content no broker writes."""

from __future__ import annotations

from ..errors import CorruptDataError


def damaged_file(problem: str) -> CorruptDataError:
    """The error with the failed check and what to do. Its caller adds the path."""
    return CorruptDataError(f"the file is damaged: {problem}; copy it again from the broker")
