"""Which input it was: for tests that try thousands, where a test for each would take far longer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def telling(case: object) -> Iterator[None]:
    """Whatever fails inside says that it was this case."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"This was the case {case}.")
        raise
