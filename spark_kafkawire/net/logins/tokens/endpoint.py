"""Requests to token endpoints, over https: the form, the time that it may take, and the token in the answer.

Source: RFC 6749, 5.1 and 5.2; KIP-768 (timeouts and retries).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeVar, cast
from urllib.parse import urlencode, urlsplit

from spark_kafkawire.errors import (
    AuthenticationError,
    ConnectFailed,
    KafkaWireError,
    OptionError,
    TransportError,
    printable,
)
from spark_kafkawire.net.http import Answer, Url, ask
from spark_kafkawire.net.tls import Tls
from spark_kafkawire.net.transport import Deadline

from .token import LIFETIME_MAX_S, Token, is_token

T = TypeVar("T")

_OK: Final = 200
#: Error codes of a server that rejects a request (RFC 6749, 5.2). Its prose is not shown.
_ERROR_CODES: Final = (
    "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type",
    "invalid_scope",
)  # fmt: skip
_CONNECT_TIMEOUT: Final = "kafka.sasl.login.connect.timeout.ms"
_READ_TIMEOUT: Final = "kafka.sasl.login.read.timeout.ms"


class OptionNames(NamedTuple):
    """Names of the options that hold the endpoint and the login, for errors."""

    endpoint: str
    login: str


@dataclass(frozen=True, slots=True)
class Patience:
    """The time that a token endpoint may take, within the deadline of the connection to the broker.

    ``retry_backoff_s`` is the wait before the second attempt, which doubles, and ``retry_s`` the time for all
    attempts. 0: the connection to the broker is tried again, as ``retries`` says.
    """

    connect_timeout_s: float | None = None
    read_timeout_s: float | None = None
    retry_backoff_s: float = 0.0
    retry_s: float = 0.0

    def bounded(self, deadline: Deadline) -> Deadline:
        """The deadline of one attempt."""
        if self.connect_timeout_s is not None:
            deadline = replace(deadline, dial_s=self.connect_timeout_s, dial_option=_CONNECT_TIMEOUT)
        limit_s = self.read_timeout_s
        if limit_s is None or limit_s >= deadline.left_s:
            return deadline
        return replace(deadline.sooner(limit_s), timeout_s=limit_s, option=_READ_TIMEOUT)

    def retried(self, attempt: Callable[[Deadline], T], deadline: Deadline) -> T:
        """The result of the first attempt that succeeds. Raises the error of the last one."""
        whole = deadline.sooner(self.retry_s)
        wait_s = self.retry_backoff_s
        while True:
            try:
                return attempt(self.bounded(deadline))
            except TransportError:
                if wait_s <= 0 or wait_s >= whole.left_s:
                    raise
            time.sleep(wait_s)
            wait_s *= 2


def https_url(text: str, option: str) -> Url:
    """The address of a token endpoint. Raises ``OptionError`` (fatal)."""
    url = Url.parse(text)
    if url is None or url.scheme != "https":
        raise OptionError(
            f"option {option} is not of the form https://host:port/path (its value is not shown); the client "
            "sends secrets there, so plain http is not allowed"
        )
    return url


def ask_for_token(
    url: Url,
    headers: Mapping[str, str],
    form: Mapping[str, str],
    tls: Tls,
    login: str,
    deadline: Deadline,
    patience: Patience = Patience(),
) -> Token:
    """Post a form to a token endpoint. ``login`` names what the server may reject. ``tls`` adds trusted
    certificates to the system's authorities.

    Raises ``AuthenticationError`` (fatal) if the server rejects the request, ``TransportError`` (retriable).
    """
    sent = {**headers, "Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    trust = replace(tls, adds_system_trust=True, checks_host_name=True)
    body = urlencode(form).encode()

    def attempt(bound: Deadline) -> Token:
        return token_in(ask(url, "POST", sent, body, trust, bound), login)

    try:
        return patience.retried(attempt, deadline)
    except KafkaWireError as error:
        raise error.located(f"token endpoint {printable(urlsplit(f'//{url.netloc}').hostname)}") from error


def token_in(answer: Answer, login: str) -> Token:
    """The token of an answer; its lifetime is 0 if the server does not send one.

    Raises ``AuthenticationError`` (fatal), ``ConnectFailed`` (retriable).
    """
    if answer.is_temporary:
        raise ConnectFailed(f"the server answers with HTTP status {answer.status}; see its log")
    found = object_in(answer.body)
    if answer.status != _OK:
        code = found.get("error")
        reason = f" {code}" if code in _ERROR_CODES else ""
        raise AuthenticationError(
            f"the server rejects {login}: HTTP status {answer.status}{reason}; check "
            "that it knows this client"
        )
    token = found.get("access_token")
    if not isinstance(token, str) or not is_token(token):
        raise AuthenticationError(
            "the server's response has no access_token; check that the URL is that of a token endpoint"
        )
    return Token(token, lifetime_of(found.get("expires_in")))


def lifetime_of(value: object) -> float:
    """The lifetime that a server sends, seconds; 0 for one that is no number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return 0.0
    return max(min(cast(float, value), LIFETIME_MAX_S), 0.0)


def object_in(body: bytes) -> dict[str, Any]:
    """The JSON object of a body; an empty one if the body is something else."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}
