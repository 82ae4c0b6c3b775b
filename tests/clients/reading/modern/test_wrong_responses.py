"""Responses to Fetch that do not match the request, or are damaged."""

from __future__ import annotations

import pytest

from spark_kafkawire.errors import BrokerError, CorruptDataError, KafkaWireError, ProtocolError
from spark_kafkawire.net.pool import Pool
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.modern import fetch
from tests.support.fetching import VALUES, altered, fetcher_of, rows, values
from tests.support.log_server import LogServer, Sent
from tests.support.memory_log import MemoryLog


def test_what_a_fetch_brings_from_before_its_offset_is_left_out(log: MemoryLog, pool: Pool) -> None:
    class EarlyLog(MemoryLog):
        def read(self, offset: int, size_max: int) -> bytes:
            return bytes(log.read(max(offset - 10, 0), size_max))

    early = EarlyLog()
    early.stop_offset = log.stop_offset
    with LogServer({"t": [early]}) as server:
        assert rows(fetcher_of(server.bootstrap_servers, pool)) == list(enumerate(VALUES))


@pytest.mark.parametrize(("first", "second"), [(7, 7), (14, 7), (7, 11)])
def test_batches_that_repeat_offsets_inside_an_answer_are_an_error(
    served: LogServer, log: MemoryLog, pool: Pool, first: int, second: int
) -> None:
    def at(offset: int) -> bytes:
        return offset.to_bytes(8, "big") + bytes(log.read(0, 1))[8:]

    altered(served, lambda _: {"records": at(0) + at(first) + at(second)})
    where = rf"^t 0 on broker 0 .*batch at offset {second} is damaged: "
    with pytest.raises(CorruptDataError, match=where):
        values(fetcher_of(served.bootstrap_servers, pool))


def test_a_response_about_nothing_is_none(served: LogServer, pool: Pool) -> None:
    served.broker.answer_with(fetch.FetchRequest, lambda _: fetch.FetchResponse(responses=()))
    with pytest.raises(ProtocolError, match=" 0, which was requested, and contains nothing"):
        values(fetcher_of(served.bootstrap_servers, pool))


def test_an_answer_about_something_else_ends_the_read(served: LogServer, pool: Pool) -> None:
    altered(served, lambda _: {"partition_index": 7})
    with pytest.raises(
        ProtocolError, match=r"t 0 at offset 0: broker 0 .*: it contains [0-9a-f-]{36} 7, but "
    ):
        values(fetcher_of(served.bootstrap_servers, pool))


def test_an_answer_that_begins_before_the_offset_again_and_again_ends_the_read(
    served: LogServer, log: MemoryLog, pool: Pool
) -> None:
    altered(served, lambda _: {"records": log.read(0, 100)})
    with pytest.raises(BrokerError, match="Fetch returned no record"):
        values(fetcher_of(served.bootstrap_servers, pool))


@pytest.mark.parametrize("byte", [150, 1000, 3000])
def test_a_flipped_bit_is_found(log: MemoryLog, pool: Pool, byte: int) -> None:
    def flip(api: object, frame: bytes) -> Sent:
        flipped = bytearray(frame)
        if api is modern.FETCH:
            flipped[byte] ^= 1
        return Sent(bytes(flipped))

    with (
        LogServer({"t": [log]}, lie=flip) as server,
        pytest.raises(KafkaWireError, match=r"^t 0 ") as caught,
    ):
        values(fetcher_of(server.bootstrap_servers, pool))
    assert "000000" not in str(caught.value)
    assert isinstance(caught.value, CorruptDataError) or byte == 150
