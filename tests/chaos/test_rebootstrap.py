"""A rebootstrap storm: every broker asks the client to bootstrap, again and again."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Final

import pytest

from spark_kafkawire.errors import BrokerError
from spark_kafkawire.net.pool import POOL
from spark_kafkawire.protocol.modern.error_codes import ErrorCode
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from spark_kafkawire.protocol.modern.negotiation import ApiVersionsRequest
from tests.support import ours
from tests.support.foreign import Record
from tests.support.log_server import LogServer
from tests.support.memory_log import MemoryLog
from tests.support.reading import Read

#: How long the storm is endured, seconds, and bounds of the time and the requests that this may take: waits
#: double from 100 ms on.
ENDURED_S: Final = 1
TIME_MAX_S: Final = 20.0
REQUESTS_MAX: Final = 30
OPTIONS: Final = {
    "brokerDownTimeout": f"{ENDURED_S}s",
    "bootstrapTimeout": f"{ENDURED_S}s",
    "retryBackoff": "100ms",
    "kafka.max.block.ms": f"{ENDURED_S}s",
}
STORM: Final = {"error_code": ErrorCode.REBOOTSTRAP_REQUIRED}


def storm_over(server: LogServer, requests: float, *, of_versions: bool) -> list[Any]:
    """Let a server ask for it in that many answers to Metadata or, where a broker checks who is meant, to
    ApiVersions. Returns the requests."""
    lost: dict[str, Any] = {"api_keys": ()} if of_versions else {"brokers": (), "topics": ()}

    def answer(honest: Any, _: Any) -> Any:
        return replace(honest, **STORM, **lost) if len(asked) <= requests else honest

    asked = server.broker.alter(ApiVersionsRequest if of_versions else MetadataRequest, answer)
    return asked


def read(server: LogServer) -> None:
    assert Read(server.bootstrap_servers, subscribe="t", **OPTIONS).column("value") == [b"v"]


def write(server: LogServer) -> None:
    ours.produce(server.bootstrap_servers, "t", [Record(b"w")], **OPTIONS)


@pytest.mark.parametrize("of_versions", [False, True], ids=["Metadata", "ApiVersions"])
def test_a_storm_ends_in_one_line_and_a_short_one_is_ridden_out(
    of_versions: bool, subtests: pytest.Subtests
) -> None:
    for work in (read, write):
        with subtests.test(work.__name__), LogServer({"t": [MemoryLog()]}) as server:
            ours.produce(server.bootstrap_servers, "t", [Record(b"v")])
            POOL.close_idle()
            storm_over(server, 3, of_versions=of_versions)
            work(server)
            POOL.close_idle()
            asked = storm_over(server, float("inf"), of_versions=of_versions)
            began_s = time.monotonic()
            with pytest.raises(BrokerError, match=r"bootstrap again .*129 REBOOTSTRAP_REQUIRED") as error:
                work(server)
            assert "\n" not in str(error.value)
            assert str(error.value).count("REBOOTSTRAP_REQUIRED") == 1
            assert time.monotonic() - began_s < TIME_MAX_S
            assert 1 < len(asked) < REQUESTS_MAX
