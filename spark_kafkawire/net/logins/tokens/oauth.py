"""Bearer tokens from an authorization server, over https.

The grant is one for client credentials, or for an assertion that the client signs or has in a file.

Source: RFC 6749, 4.4, 5.1 and 5.2; RFC 7523; KIP-768 (timeouts and retries), KIP-1139.
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeVar, cast
from urllib.parse import quote_plus, urlencode, urlsplit

from spark_kafkawire.errors import (
    AuthenticationError,
    ConnectFailed,
    KafkaWireError,
    OptionError,
    TransportError,
    printable,
)
from spark_kafkawire.net.http import Answer, Url, ask, object_in
from spark_kafkawire.net.tls import Tls
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.secrecy import Credentials

from .token import LIFETIME_MAX_S, Token, current_token, is_token, word_in

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

    def bound(self, deadline: Deadline) -> Deadline:
        """The deadline of one attempt."""
        if self.connect_timeout_s is not None:
            deadline = replace(deadline, dial_s=self.connect_timeout_s, dial_option=_CONNECT_TIMEOUT)
        limit_s = self.read_timeout_s
        if limit_s is None or limit_s >= deadline.left_s:
            return deadline
        return replace(deadline.sooner(limit_s), timeout_s=limit_s, option=_READ_TIMEOUT)

    def retry(self, attempt: Callable[[Deadline], T], deadline: Deadline) -> T:
        """The result of the first attempt that succeeds. Raises the error of the last one."""
        whole = deadline.sooner(self.retry_s)
        wait_s = self.retry_backoff_s
        while True:
            try:
                return attempt(self.bound(deadline))
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
        return patience.retry(attempt, deadline)
    except KafkaWireError as error:
        raise error.locate(f"token endpoint {printable(urlsplit(f'//{url.netloc}').hostname)}") from error


def token_in(answer: Answer, login: str) -> Token:
    """The token of an answer; its lifetime is 0 if the server does not send one.

    Raises ``AuthenticationError`` (fatal), ``ConnectFailed`` (retriable).
    """
    if answer.is_temporary:
        raise ConnectFailed(f"the server answers with HTTP status {answer.status}; see its log")
    result = object_in(answer.body) or {}
    if answer.status != _OK:
        code = result.get("error")
        reason = f" {code}" if code in _ERROR_CODES else ""
        raise AuthenticationError(
            f"the server rejects {login}: HTTP status {answer.status}{reason}; check "
            "that it knows this client"
        )
    token = result.get("access_token")
    if not isinstance(token, str) or not is_token(token):
        raise AuthenticationError(
            "the server's response has no access_token; check that the URL is that of a token endpoint"
        )
    return Token(token, lifetime_of(result.get("expires_in")))


def lifetime_of(value: object) -> float:
    """The lifetime that a server sends, seconds; 0 for one that is no number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return 0.0
    return max(min(cast(float, value), LIFETIME_MAX_S), 0.0)


OF_BROKERS: Final = OptionNames(
    "kafka.sasl.oauthbearer.token.endpoint.url", "clientId and clientSecret of kafka.sasl.jaas.config"
)
#: The same where the login is in options of its own.
IN_OPTIONS: Final = OF_BROKERS._replace(login="kafka.sasl.oauthbearer.client.credentials.*")


@dataclass(frozen=True, slots=True)
class ClientCredentials(Credentials):
    """A client of an authorization server. Plain data; secrets are in no repr.

    ``tls`` adds trusted certificates to the system's authorities. ``encodes_header`` encodes the name and the
    secret as in a URL before they go into the header, as RFC 6749 wants and few servers do.
    """

    endpoint_url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None
    tls: Tls = Tls()
    names: OptionNames = OF_BROKERS
    encodes_header: bool = False
    patience: Patience = Patience()

    def __post_init__(self) -> None:
        https_url(self.endpoint_url, self.names.endpoint)

    def token(self, deadline: Deadline) -> str:
        """A valid token, from the cache or from the server. Raises as ``fetch`` does."""
        return current_token(self, "", deadline).value

    def fetch(self, _host: str, deadline: Deadline) -> Token:
        """A token from the server.

        Raises ``AuthenticationError`` (fatal) if the server rejects the request, ``TransportError``
        (retriable).
        """
        pair = (self.client_id, self.client_secret)
        login = ":".join(quote_plus(item) if self.encodes_header else item for item in pair)
        headers = {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        url = https_url(self.endpoint_url, self.names.endpoint)
        return ask_for_token(url, headers, form, self.tls, self.names.login, deadline, self.patience)


_PREFIX: Final = "kafka.sasl.oauthbearer.assertion"
NAMES: Final = OptionNames("kafka.sasl.oauthbearer.token.endpoint.url", f"the assertion of {_PREFIX}.*")
#: The grant of tokens for an assertion.
JWT_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
#: Size of each of the two numbers of an ES256 signature, bytes (RFC 7518, 3.4).
_ES256_NUMBER_BYTES: Final = 32
#: The curve P-256, as OpenSSL names it.
_P256: Final = "secp256r1"


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key, PEM, with the algorithm of its signatures. Secrets are in no repr. ``name`` is that of
    the key in errors."""

    algorithm: str
    key: str = field(repr=False)
    passphrase: str | None = field(default=None, repr=False)
    name: str = f"option {_PREFIX}.private.key.file"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may contain. A key is too long to be in one."""
        return (self.passphrase,) if self.passphrase else ()

    def signed(self, header: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
        """A JSON web token. Raises ``OptionError`` (fatal) if the key is not one of the algorithm, or the
        package ``cryptography`` is missing."""
        head = {"alg": self.algorithm, "typ": "JWT", **header}
        text = (
            f"{encode_base64url(json.dumps(head).encode())}.{encode_base64url(json.dumps(claims).encode())}"
        )
        return f"{text}.{encode_base64url(self._signature(text.encode()))}"

    def _signature(self, data: bytes) -> bytes:
        try:
            from cryptography.hazmat.primitives import hashes, serialization
            from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
        except ImportError as error:
            raise OptionError(
                f"{self.name}: signatures need the package cryptography, which is not "
                "installed: run pip install cryptography, for the driver and the executors"
            ) from error
        passphrase = self.passphrase.encode() if self.passphrase else None
        try:
            key = serialization.load_pem_private_key(self.key.encode(), passphrase)
        except TypeError:
            reason = (
                "not encrypted; leave the passphrase out" if passphrase else "encrypted; set its passphrase"
            )
            raise OptionError(f"{self.name}: the private key is {reason}") from None
        except ValueError:
            also = f" that {_PREFIX}.private.key.passphrase opens: correct one of them" if passphrase else ""
            raise OptionError(
                f"{self.name}: it holds no private key in PEM, which begins with -----BEGIN PRIVATE KEY----- "
                f"or the like{also or '; give a file with one'}"
            ) from None
        if self.algorithm == "RS256" and isinstance(key, rsa.RSAPrivateKey):
            return key.sign(data, padding.PKCS1v15(), hashes.SHA256())
        is_es256 = self.algorithm == "ES256"
        if is_es256 and isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name == _P256:
            numbers = utils.decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
            return b"".join(number.to_bytes(_ES256_NUMBER_BYTES, "big") for number in numbers)
        raise OptionError(
            f"{self.name}: its key is not one for {self.algorithm}; RS256 signs with a key of RSA, ES256 "
            "with one of the curve P-256"
        )


@dataclass(frozen=True, slots=True)
class Claims:
    """The contents of an assertion. ``header`` and ``payload`` are JSON objects as text, from a template;
    ``fields`` replace what the payload has."""

    fields: tuple[tuple[str, str], ...] = ()
    header: str = "{}"
    payload: str = "{}"
    expires_s: float = 300.0
    not_before_s: float = 60.0
    has_id: bool = False

    def at(self, now_s: float) -> dict[str, Any]:
        """The claims of an assertion that is made now."""
        times = {"iat": now_s, "exp": now_s + self.expires_s, "nbf": now_s - self.not_before_s}
        result = {**json.loads(self.payload), **dict(self.fields), **{k: int(v) for k, v in times.items()}}
        return {**result, "jti": str(uuid.uuid4())} if self.has_id else result


@dataclass(frozen=True, slots=True)
class JwtAssertion(Credentials):
    """A client that proves who it is by an assertion: one that it signs, or one of a file on the machine that
    connects, which is read for each request."""

    endpoint_url: str
    signer: Signer | None = None
    claims: Claims = Claims()
    assertion_file: str | None = None
    scope: str | None = None
    tls: Tls = Tls()
    patience: Patience = Patience()

    def __post_init__(self) -> None:
        https_url(self.endpoint_url, NAMES.endpoint)

    def assertion(self) -> str:
        """An assertion. Raises ``OptionError`` or ``AuthenticationError`` (fatal)."""
        if self.signer is None:
            return word_in(self.assertion_file or "", f"{_PREFIX}.file")
        return self.signer.signed(json.loads(self.claims.header), self.claims.at(time.time()))

    def fetch(self, _host: str, deadline: Deadline) -> Token:
        """A token from the server.

        Raises ``AuthenticationError`` (fatal) if the server rejects the request, ``TransportError``
        (retriable).
        """
        scope = {"scope": self.scope} if self.scope else {}
        form = {"grant_type": JWT_GRANT, "assertion": self.assertion(), **scope}
        url = https_url(self.endpoint_url, NAMES.endpoint)
        return ask_for_token(url, {}, form, self.tls, NAMES.login, deadline, self.patience)


def encode_base64url(data: bytes) -> str:
    """Bytes in the base 64 of URLs, without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
