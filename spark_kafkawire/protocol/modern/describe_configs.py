"""DescribeConfigs (Kafka 0.11 and later): the settings of topics and brokers that are in force.

Versions of DescribeConfigs::

    0       settings, and whether each is a default (KIP-133)
    1       source of each value, and the values that would apply without it (KIP-226)
    2       throttled responses come at once, and the client waits (KIP-219)
    3       type and documentation (KIP-569)
    4       flexible (KIP-482)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..primitives import BOOL, INT8, INT16, INT32, Array, String
from ..responses import Faults, find_repeated, unlike
from ..schema import Struct, wire
from . import declare
from .limits import response_bytes_max

#: ``resource_type`` of a topic.
TOPIC_RESOURCE: Final = 2
#: ``resource_type`` of a broker, which itself describes it.
BROKER_RESOURCE: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedResource:
    """A topic or broker by its name, and the settings to return; None for all."""

    resource_type: int = wire(INT8)
    resource_name: str = wire(String())
    """Name of the topic, or id of the broker."""
    configuration_keys: tuple[str, ...] | None = wire(Array(String()), nullable_since=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsRequest:
    """Settings of some resources. The user needs the right DESCRIBE_CONFIGS for each."""

    resources: tuple[DescribedResource, ...] = wire(Array(Struct(DescribedResource)))
    include_synonyms: bool = wire(BOOL, since=1, default=False)
    include_documentation: bool = wire(BOOL, since=3, default=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSynonym:
    """A setting that would apply if this one were not set, such as the broker's own."""

    name: str = wire(String())
    value: str | None = wire(String(), nullable_since=0)
    source: int = wire(INT8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A setting and its value in force; None for one that is secret."""

    name: str = wire(String())
    value: str | None = wire(String(), nullable_since=0)
    read_only: bool = wire(BOOL)
    is_default: bool = wire(BOOL, until=0, default=False)
    config_source: int = wire(INT8, since=1, default=-1)
    """Source of the value: the topic, a broker, or the default; -1 if unknown (KIP-226)."""
    is_sensitive: bool = wire(BOOL)
    synonyms: tuple[ConfigSynonym, ...] = wire(Array(Struct(ConfigSynonym)), since=1, default=())
    config_type: int = wire(INT8, since=3, default=0)
    documentation: str | None = wire(String(), since=3, nullable_since=3, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceConfigs:
    """The settings of one resource."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(String(), nullable_since=0)
    resource_type: int = wire(INT8)
    resource_name: str = wire(String())
    configs: tuple[Config, ...] = wire(Array(Struct(Config)))


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeConfigsResponse:
    """The settings of each requested resource."""

    throttle_time_ms: int = wire(INT32, default=0)
    results: tuple[ResourceConfigs, ...] = wire(Array(Struct(ResourceConfigs)))


def _faults(request: DescribeConfigsRequest, response: DescribeConfigsResponse, _version: int) -> Faults:
    asked = {(item.resource_type, item.resource_name): item for item in request.resources}
    yield from unlike(asked, ((item.resource_type, item.resource_name) for item in response.results))
    for result in response.results:
        resource = asked[result.resource_type, result.resource_name]
        found = [config.name for config in result.configs]
        if resource.configuration_keys is None:
            yield from find_repeated(found)
        elif not result.error_code:
            yield from unlike(resource.configuration_keys, found, may_lack=True)


DESCRIBE_CONFIGS: Final = declare(
    DescribeConfigsRequest, DescribeConfigsResponse, response_bytes_max, _faults
)
