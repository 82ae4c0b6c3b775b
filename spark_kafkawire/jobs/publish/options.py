"""Options of a publication, from those that the user gives."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ...errors import OptionError
from ...model import Generation
from ...options import Discovery, WriteOptions
from ...source.write_schema import WRITE_SCHEMAS, WriteSchema

#: The option ``acks`` that proves each row to be where a later run finds it, by generation.
_PROVEN: Final[Mapping[Generation, str]] = MappingProxyType(
    {Generation.V07: "verify", Generation.MODERN: "all"}
)

#: How long logs must stand still before they are compared, seconds: a 0.7 broker flushes after 3 s, and
#: looks whether it should every 3 s.
SETTLE_S: Final = 10.0


def with_topic(options: Mapping[str, str], topic: str | None) -> dict[str, str]:
    """The options of the write; the topic is an argument of its own. Raises ``OptionError`` (fatal)."""
    if any(name.lower() == "topic" for name in options):
        raise OptionError("argument --option: topic is told by --topic or --topic-column")
    WriteOptions.parse(options)
    return {**options, "topic": topic} if topic is not None else dict(options)


def proven(options: Mapping[str, str]) -> dict[str, str]:
    """The options with the ``acks`` that a state directory needs. Raises ``OptionError`` for another one."""
    needed = _PROVEN[WriteOptions.parse(options).discovery.generation]
    if not any(name.lower() in ("acks", "kafka.acks") for name in options):
        return {**options, "acks": needed}
    if WriteOptions.parse(options).acks != needed:
        raise OptionError(
            f"option acks: with --state it is {needed}, by which rows are found again; leave it out"
        )
    return dict(options)


def settle_seconds(state: str | None, given: int | None) -> float:
    """How long logs must stand still. Raises ``OptionError`` (fatal)."""
    if state is None and given is not None:
        raise OptionError("argument --settle-seconds goes with --state")
    return SETTLE_S if given is None else given


def write_schema(options: Mapping[str, str]) -> WriteSchema:
    """What the brokers that the options name make of columns. Raises ``OptionError`` (fatal)."""
    return WRITE_SCHEMAS[WriteOptions.parse(options).discovery.generation]


def shown_target(discovery: Discovery) -> str:
    """The cluster that is written to, as errors and state files name it: without credentials."""
    if discovery.zookeeper_connect is not None:
        return f"zookeeper.connect={discovery.zookeeper_connect}"
    name = "kafka.bootstrap.servers" if discovery.bootstrap_servers else "broker.list"
    brokers = discovery.bootstrap_servers or discovery.broker_list
    return f"{name}={','.join(sorted(f'{broker.host}:{broker.port}' for broker in brokers))}"
