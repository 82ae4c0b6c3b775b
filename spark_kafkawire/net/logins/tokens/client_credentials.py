"""Bearer tokens from an authorization server: the client credentials grant over HTTPS.

Source: RFC 6749, 4.4; KIP-768.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlencode, urlsplit

from spark_kafkawire.errors import AuthenticationError, ConnectFailed, KafkaWireError, OptionError, printable
from spark_kafkawire.net.http import Answer, Url, ask
from spark_kafkawire.net.tls import Tls
from spark_kafkawire.net.transport import Deadline

from .token import LIFETIME_MAX_S, Token, current_token, is_token

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
        """A valid token, from the cache or from the server. Raises as ``fetch`` does."""
        return current_token(self, "", deadline).value

    def fetch(self, _host: str, deadline: Deadline) -> Token:
        """A token from the server.

        Raises ``AuthenticationError`` (fatal) if the server rejects the request, ``TransportError``
        (retriable).
        """
        try:
            return self._ask(deadline)
        except KafkaWireError as error:
            raise error.located(
                f"token endpoint {printable(urlsplit(self.endpoint_url).hostname)}"
            ) from error

    def _ask(self, deadline: Deadline) -> Token:
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

    def _token_in(self, answer: Answer) -> Token:
        """The token; its lifetime is 0 if the server does not send one."""
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
        if not isinstance(token, str) or not is_token(token):
            raise AuthenticationError(
                "its response has no access_token; check that the URL is that of a token endpoint"
            )
        is_time = isinstance(lifetime_s, int | float) and not isinstance(lifetime_s, bool)
        return Token(token, max(min(cast(float, lifetime_s), LIFETIME_MAX_S), 0.0) if is_time else 0.0)


def _object_in(body: bytes) -> dict[str, Any]:
    """The JSON object of a body; an empty one if the body is something else."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}
