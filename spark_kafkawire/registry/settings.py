"""Settings of the connection to a schema registry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Union

from ..net.http import Url
from ..net.retry import RetryPolicy

if TYPE_CHECKING:
    from ..net.logins.tokens.client_credentials import ClientCredentials
    from ..net.tls import Tls


@dataclass(frozen=True, slots=True)
class BasicLogin:
    """User and password of HTTP's basic authentication."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A token that the user has."""

    token: str = field(repr=False)


#: Logins to a registry.
Login = Union[BasicLogin, BearerToken, "ClientCredentials"]


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """Everything that requests to a registry need. Plain data, hashable: processes keep one client, with its
    schemas, for equal settings. Secrets travel to the executors, and are in no repr.

    ``urls`` are servers of one registry. ``headers`` are sent with each request. ``tls`` is needed for https.
    ``timeout_s`` bounds the requests to one server for a schema with all that it imports, ``retry`` what
    follows failed ones.
    """

    urls: tuple[Url, ...]
    login: Login | None = None
    headers: tuple[tuple[str, str], ...] = ()
    tls: Tls | None = None
    timeout_s: float = 30.0
    retry: RetryPolicy = RetryPolicy()
