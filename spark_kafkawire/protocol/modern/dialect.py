"""The dialect of modern Kafka (0.8 to 4.x): all APIs that this package uses."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from spark_kafkawire.model import Generation

from ..api import Api
from ..dialect import Dialect, kafka_headers
from . import API_HOMES


class _Declared:
    """The APIs of ``API_HOMES``. The API of a request is in the module that declares the request, which is
    imported already. Iteration imports all modules."""

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
