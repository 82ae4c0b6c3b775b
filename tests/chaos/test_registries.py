"""Requests to a registry whose connections and answers break: what the client takes for true is true, and
defects that are planted in it are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from spark_kafkawire.errors import TransportError, UnknownSchemaError
from spark_kafkawire.net.http import Answer
from spark_kafkawire.registry import client
from spark_kafkawire.registry.client import Registry
from spark_kafkawire.registry.schemas import RegisteredSchema, schema_in
from tests.support.short_and_long import short_and_long

from . import registries
from .operation import EXACT
from .registries import operation

SEED: Final = 1
#: Operations in which a planted defect is found at the latest.
_ENOUGH: Final = 60


@short_and_long("operations", short=20, long=300)
@pytest.mark.timeout(1800)
def test_what_a_client_takes_for_true_is_true(operations: int) -> None:
    ended = sum((operation(SEED, number) for number in range(operations)), start=Counter[str]())
    assert ended[EXACT] > operations
    assert ended["ConnectFailed"] > 0
    assert len([name for name in ended if name.startswith("answers ")]) > 10
    assert len([name for name in ended if name.startswith("connections ")]) > 5


def _trusting(found: Mapping[str, Any], subject: str, version: int | None) -> RegisteredSchema:
    return RegisteredSchema(
        found.get("id", -1), schema_in(found), subject=subject, version=version or found.get("version", -1)
    )


def _without_codes(answer: Answer) -> dict[str, Any]:
    if answer.status == 404:
        raise UnknownSchemaError("it has no such page")
    return _object_of(answer)


def _keeping(registry: Registry, key: tuple[object, ...], what: str, fetch: Callable[[Any], Any]) -> Any:
    try:
        return _kept(registry, key, what, fetch)
    except TransportError:
        registry._answers[key] = 0
        raise


_object_of, _kept = client._object_of, Registry._kept
DEFECTS: Final[dict[str, tuple[object, str, object]]] = {
    "an answer for another version is taken": (client, "version_in", _trusting),
    "a proxy's 404 is an unknown schema": (client, "_object_of", _without_codes),
    "a failure is kept": (Registry, "_kept", _keeping),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_planted_defect_is_found_and_told_with_its_operation(
    defect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, name, planted = DEFECTS[defect]
    monkeypatch.setattr(of, name, planted)
    with pytest.raises(AssertionError, match=r"again: python -m tests\.chaos\.registries --operation 1:"):
        list(map(operation, [SEED] * _ENOUGH, range(_ENOUGH)))


def test_a_request_that_takes_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "GRACE_S", -60.0)
    with pytest.raises(AssertionError, match=r"took [0-9.]+ s"):
        operation(SEED, 1)
