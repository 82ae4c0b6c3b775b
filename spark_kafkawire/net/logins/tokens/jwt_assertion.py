"""Bearer tokens from an authorization server for an assertion that the client signs, or has in a file.

Source: RFC 7523; KIP-1139 (``sasl.oauthbearer.assertion.*``).
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spark_kafkawire.errors import OptionError
from spark_kafkawire.net.tls import Tls
from spark_kafkawire.net.transport import Deadline

from .endpoint import OptionNames, Patience, ask_for_token, https_url
from .token import Token
from .token_file import word_in

_PREFIX: Final = "kafka.sasl.oauthbearer.assertion"
NAMES: Final = OptionNames("kafka.sasl.oauthbearer.token.endpoint.url", f"the assertion of {_PREFIX}.*")
#: The grant of tokens for an assertion.
JWT_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
#: Size of each of the two numbers of an ES256 signature, bytes (RFC 7518, 3.4).
_ES256_NUMBER_BYTES: Final = 32
#: The curve P-256, as OpenSSL names it.
_P256: Final = "secp256r1"
ALGORITHMS: Final = ("RS256", "ES256")


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
        text = f"{encoded(json.dumps(head).encode())}.{encoded(json.dumps(claims).encode())}"
        return f"{text}.{encoded(self._signature(text.encode()))}"

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
            what = " with this passphrase; check key and passphrase" if passphrase else "; check the file"
            raise OptionError(f"{self.name}: no private key in PEM can be read{what}") from None
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
        found = {**json.loads(self.payload), **dict(self.fields), **{k: int(v) for k, v in times.items()}}
        return {**found, "jti": str(uuid.uuid4())} if self.has_id else found


@dataclass(frozen=True, slots=True)
class JwtAssertion:
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

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may contain, even if a server repeats them."""
        return () if self.signer is None else self.signer.secrets

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


def encoded(data: bytes) -> str:
    """Bytes in the base 64 of URLs, without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
