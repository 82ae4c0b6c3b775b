"""All APIs of Kafka 0.8 to 4.x that are spoken here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from ...model import Generation
from ..api import Api
from ..dialect import Dialect, kafka_headers
from . import API_HOMES


class _Declared:
    """The APIs of ``API_HOMES``. That of a request is found in the module that declares both, which is
    imported where there is a request; to go through them imports all."""

    def __init__(self) -> None:
        self._found: dict[type[Any], Api] = {}

    def __iter__(self) -> Iterator[Api]:
        package = sys.modules[__package__]
        return (getattr(package, name) for name in API_HOMES)

    def __len__(self) -> int:
        return len(API_HOMES)

    def of(self, request: type[Any]) -> Api:
        if request not in self._found:
            declared = vars(sys.modules[request.__module__]).values()
            self._found[request] = next(
                api for api in declared if isinstance(api, Api) and api.request is request
            )
        return self._found[request]


DIALECT: Final = Dialect(
    generation=Generation.MODERN,
    correlates=True,
    negotiates=True,
    apis=_Declared(),
    headers=kafka_headers,
)
