"""What travels with an object, and is needed in few of the processes that get it."""

from __future__ import annotations

import pickle
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Packed(Generic[T]):
    """A value that is unpickled, and what it is made of imported, when it is first looked at."""

    def __init__(self, value: T) -> None:
        self._value: T | None = value
        self._pickled = b""

    @property
    def value(self) -> T:
        """The value itself."""
        if self._value is None:
            self._value = pickle.loads(self._pickled)
        return self._value

    def __getstate__(self) -> bytes:
        # As it is now: it may have learned something since it came.
        return self._pickled if self._value is None else pickle.dumps(self._value, pickle.HIGHEST_PROTOCOL)

    def __setstate__(self, state: Any) -> None:
        self._value, self._pickled = None, state
