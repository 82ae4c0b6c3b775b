"""Kernels run both ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from spark_kafkawire.records import compiler
from tests.support.kernels import interpreted_kernels


@pytest.fixture
def compiled() -> None:
    """Kernels run compiled from here on."""
    assert compiler.load()


@pytest.fixture
def interpreted() -> Iterator[None]:
    """Kernels run interpreted during the test."""
    with interpreted_kernels():
        yield


@pytest.fixture(params=["compiled", "interpreted"])
def kernels(request: pytest.FixtureRequest) -> None:
    """The test runs twice: with compiled kernels, then with interpreted ones."""
    request.getfixturevalue(request.param)


@pytest.fixture
def both_ways() -> Callable[..., list[Any]]:
    """Call a function for each input, compiled and interpreted: results are the same."""
    assert compiler.load()

    def call(function: Callable[[bytes], Any], inputs: list[bytes]) -> list[Any]:
        compiled = [function(data) for data in inputs]
        with interpreted_kernels():
            for data, fast in zip(inputs, compiled, strict=True):
                assert function(data) == fast, data.hex()
        return compiled

    return call
