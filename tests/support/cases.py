"""Many cases as one item of pytest: an item takes more time than most of these cases.

Arguments are those of ``pytest.mark.parametrize``; two of them on one test give all combinations. Each case
is a subtest: a failure names its case, and the cases after it run all the same. ``parametrize`` stays where
pytest has to see each case: cases that share no fixture, have marks, skip, or take seconds.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import reprlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pytest

from spark_kafkawire import kept, secrecy
from spark_kafkawire.net.known_versions import BROKER_VERSIONS
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.net.retry import forget_clusters

Test: TypeAlias = Callable[..., None]
#: Names of cases, or a function that gives the name of one value.
Ids: TypeAlias = Iterable[object] | Callable[[Any], object] | None

_PARAM: Final = type(pytest.param())
_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


@dataclass(frozen=True, slots=True)
class _Case:
    name: str
    values: dict[str, Any]


def for_each(names: str | Sequence[str], values: Iterable[Any], ids: Ids = None) -> Callable[[Test], Test]:
    """Call a test for each of ``values``, in one item.

    Raises:
        ValueError: There is no case, or one has marks.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    given = iter(ids) if isinstance(ids, Iterable) else itertools.repeat(None)
    cases = [_case(arguments, value, next(given), ids) for value in values]
    if not cases:
        raise ValueError(f"no cases of {arguments}")

    def decorated(test: Test) -> Test:
        function, below = getattr(test, "looped", (test, [_Case("", {})]))
        product = [
            _Case(", ".join(filter(None, (inner.name, outer.name))), outer.values | inner.values)
            for outer in cases
            for inner in below
        ]
        return _in_one_item(test, function, product)

    return decorated


def _case(arguments: list[str], value: Any, name: object, ids: Ids) -> _Case:
    if isinstance(value, _PARAM):
        if value.marks:
            raise ValueError(f"a case with marks is an item of its own: parametrize {arguments}")
        name, value = value.id or name, value.values if len(arguments) > 1 else value.values[0]
    values = dict(zip(arguments, value if len(arguments) > 1 else [value], strict=True))
    shown = {key: ids(item) if callable(ids) else None for key, item in values.items()}
    parts = (
        f"{key}={_SHORT.repr(values[key])}" if text is None else str(text) for key, text in shown.items()
    )
    return _Case(str(name or ", ".join(parts)), values)


def _in_one_item(test: Test, function: Test, cases: list[_Case]) -> Test:
    @functools.wraps(function, updated=())
    def looped(subtests: pytest.Subtests, **fixtures: Any) -> None:
        failed: list[str] = []
        for case in cases:
            is_late = False
            with subtests.test(case.name):
                try:
                    function(**fixtures, **case.values)
                except pytest.skip.Exception as skipped:
                    failed.append(case.name)
                    raise AssertionError(
                        "a case that skips is an item of its own: parametrize it"
                    ) from skipped
                except BaseException as error:
                    failed.append(case.name)
                    # Of the whole item: no case after it has a deadline.
                    is_late = isinstance(error, pytest.fail.Exception) and "pytest-timeout" in str(error)
                    raise
                finally:
                    forget_all()
            if is_late:
                break
        # With several processes, the one that reports does not know that a subtest failed.
        if failed:
            pytest.fail(f"{len(failed)} of {len(cases)} cases: {'; '.join(failed)}", pytrace=False)

    signature = inspect.signature(function)
    own = [item for name, item in signature.parameters.items() if name not in cases[0].values]
    if len(own) + len(cases[0].values) != len(signature.parameters):
        raise ValueError(f"{function.__name__} lacks an argument of {list(cases[0].values)}")
    fixture = inspect.Parameter("subtests", inspect.Parameter.KEYWORD_ONLY)
    own = [item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in own]
    vars(looped).update(
        __signature__=signature.replace(parameters=[*own, fixture]),
        pytestmark=list(getattr(test, "pytestmark", [])),
        looped=(function, cases),
    )
    return looped


def forget_all() -> None:
    """Forget known brokers, clusters that answered, caches and secrets: another test may get the address of a
    server again, or use a word that was a secret."""
    POOL.close_idle()
    BROKER_VERSIONS.forget()
    forget_clusters()
    kept.forget_all()
    secrecy.forget_secrets()
