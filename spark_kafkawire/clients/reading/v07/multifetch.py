"""Requests of Kafka 0.7 for windows of many partitions, MULTIFETCH, and the parts of their responses.

A response has a part for each window, in order, with an error code of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_kafkawire.options import FetchOptions
from spark_kafkawire.protocol.connection import Response
from spark_kafkawire.protocol.v07 import FetchRequest, MultiFetchRequest


class MultiFetches:
    """``Packing`` of FETCH."""

    def __init__(self, options: FetchOptions) -> None:
        self.bytes_max = options.fetch_bytes

    def bytes_of(self, request: FetchRequest) -> int:
        return request.max_bytes

    def packed(self, requests: Sequence[FetchRequest]) -> MultiFetchRequest:
        return MultiFetchRequest(tuple(requests))

    def parts(self, response: Response, requests: Sequence[FetchRequest]) -> list[Response | None]:
        # The bytes before a part are those of its neighbour, which the reader of one must not overwrite.
        return [
            Response(request, part, memoryview(part.message_set))
            for request, part in zip(requests, response.body.responses, strict=True)
        ]
