"""Bearer tokens from an authorization server: the client credentials grant over HTTPS.

Source: RFC 6749, 4.4; KIP-768.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlencode, urlsplit

from ..errors import AuthenticationError, ConnectFailed, KafkaWireError, OptionError, printable
from ..secrecy import keep_secret
from .http import Answer, Url, ask
from .tls import Tls
from .transport import Deadline

#: The part of a token's lifetime after which a new one is requested, as in Java's client.
LIFETIME_USED: Final = 0.8
#: Longest use of a token, seconds, even if its server allows more.
LIFETIME_MAX_S: Final = 86_400.0
_OK: Final = 200
#: Error codes of a server that rejects a request (RFC 6749, 5.2). Its prose is not shown.
_ERROR_CODES: Final = (
    "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
    "invalid_scope",
)  # fmt: skip


class OptionNames(NamedTuple):
    """Names of the options that hold the endpoint and the login, for errors."""

    endpoint: str
    login: str


OF_BROKERS: Final = OptionNames(
    "kafka.sasl.oauthbearer.token.endpoint.url", "clientId and clientSecret of kafka.sasl.jaas.config"
)


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """A client of an authorization server. Plain data; secrets are in no repr.

    ``tls`` adds trusted certificates to the system's authorities.
    """

    endpoint_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    extensions: tuple[tuple[str, str], ...] = ()
    tls: Tls = Tls()
    names: OptionNames = OF_BROKERS

    def __post_init__(self) -> None:
        url = Url.parse(self.endpoint_url)
        if url is None or url.scheme != "https":
            raise OptionError(
                f"option {self.names.endpoint}: not of the form https://host:port/path; "
                "the client sends secrets there, so plain http is not allowed"
            )

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may contain, even if a server repeats them."""
        return (self.client_secret,)

    def token(self, deadline: Deadline) -> str:
        """A valid token, from the cache or from the server.

        Raises ``AuthenticationError`` (fatal) if the server rejects the request, ``TransportError``
        (retriable).
        """
        keep_secret(*self.secrets)
        with _lock:
            kept = _kept.get(self)
        if kept is not None and time.monotonic() < kept[1]:
            return kept[0]
        try:
            token, lifetime_s = self._ask(deadline)
        except KafkaWireError as error:
            raise error.located(
                f"token endpoint {printable(urlsplit(self.endpoint_url).hostname)}"
            ) from error
        with _lock:
            _kept[self] = token, time.monotonic() + LIFETIME_USED * lifetime_s
        return token

    def _ask(self, deadline: Deadline) -> tuple[str, float]:
        url = Url.parse(self.endpoint_url)
        assert url is not None
        login = base64.b64encode(f"{self.client_id}:{self.client_secret}".encode()).decode()
        headers = {
            "Authorization": f"Basic {login}",
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        body = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        trust = replace(self.tls, adds_system_trust=True, checks_host_name=True)
        return self._token_in(ask(url, "POST", headers, urlencode(body).encode(), trust, deadline))

    def _token_in(self, answer: Answer) -> tuple[str, float]:
        """The token and its lifetime, seconds; 0 if the server does not send one."""
        if answer.is_temporary:
            raise ConnectFailed(f"it answers with HTTP status {answer.status}")
        found = _object_in(answer.body)
        if answer.status != _OK:
            code = found.get("error")
            reason = f" {code}" if code in _ERROR_CODES else ""
            raise AuthenticationError(
                f"the server rejects {self.names.login}: HTTP status {answer.status}{reason}"
            )
        token, lifetime_s = found.get("access_token"), found.get("expires_in")
        if not isinstance(token, str) or not re.fullmatch(r"[!-~]+", token):
            raise AuthenticationError(
                "its response has no access_token; check that the URL is that of a token endpoint"
            )
        is_time = isinstance(lifetime_s, int | float) and not isinstance(lifetime_s, bool)
        return token, max(min(cast(float, lifetime_s), LIFETIME_MAX_S), 0.0) if is_time else 0.0


#: Tokens of this process, each with the end of its use on the monotonic clock.
_kept: Final[dict[ClientCredentials, tuple[str, float]]] = {}
_lock: Final = threading.Lock()


def _object_in(body: bytes) -> dict[str, Any]:
    """The JSON object of a body; an empty one if the body is something else."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}
