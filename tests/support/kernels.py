"""Kernels that run interpreted, as they do without numba."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from spark_kafkawire.records import compiler


@contextmanager
def interpreted_kernels() -> Iterator[None]:
    """Kernels run interpreted in this block, as where numba is missing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "_loaded", False)
        for kernel in compiler._kernels:
            patch.setattr(kernel, "compiled", None)
        yield
