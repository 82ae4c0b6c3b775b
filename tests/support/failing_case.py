"""A report of the input that failed, for tests that try thousands of inputs in one test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def failing_case(case: object) -> Iterator[None]:
    """Whatever fails inside says that it was this case."""
    try:
        yield
    except BaseException as error:
        if sys.version_info >= (3, 11):
            error.add_note(f"This was the case {case}.")
        else:
            print(f"This was the case {case}.")  # pytest shows it with the failure
        raise
