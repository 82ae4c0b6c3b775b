"""Tests with two lengths, for those that need minutes, such as kills at random moments.

``make test`` runs the short one, ``make nightly`` the long one: what is checked is the same. Both are
slow, so that ``make check`` leaves them out and other processes begin with them.
"""

from __future__ import annotations

from typing import Any

import pytest


def one_of(count: int, name: str = "part") -> pytest.MarkDecorator:
    """The number of a part of a test's inputs: the first one is for each commit, all others for the night."""
    others = [pytest.param(part, marks=pytest.mark.nightly) for part in range(1, count)]
    return pytest.mark.parametrize(name, [pytest.param(0, marks=pytest.mark.slow), *others])


def short_and_long(name: str, *, short: Any, long: Any) -> pytest.MarkDecorator:
    """An argument of a test, or several as ``parametrize`` takes them, for either length."""
    of_short, of_long = (short, long) if "," in name else ((short,), (long,))
    return pytest.mark.parametrize(
        name,
        [
            pytest.param(*of_short, id="short", marks=pytest.mark.slow),
            pytest.param(*of_long, id="long", marks=pytest.mark.nightly),
        ],
    )
