"""Bearer tokens for Google's managed Kafka: an access token of the application default credentials, in the
three parts that its brokers want::

    base64url({"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}) . base64url({"exp", "iat", "iss", "scope", "sub"})
        . base64url(access token)

The credentials are the key file of a service account, or the account of the machine, as in GKE and Dataproc.

Source: googleapis/managedkafka, kafka_gcp_credentials_server.py; Google's AIP-4111, AIP-4115.
"""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass
from typing import Any, Final

from spark_kafkawire.errors import AuthenticationError, TransportError, printable
from spark_kafkawire.net.tls import Tls
from spark_kafkawire.net.transport import Deadline

from .endpoint import ask_for_token, https_url, lifetime_of, object_in
from .jwt_assertion import JWT_GRANT, Signer, encoded
from .metadata import metadata_of, object_of
from .token import Token, is_token
from .token_file import read_text

#: Environment variables of Google's own programs.
_FILE: Final = "GOOGLE_APPLICATION_CREDENTIALS"
_HOST: Final = "GCE_METADATA_HOST"
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_TOKEN_URL: Final = "https://oauth2.googleapis.com/token"
_FLAVOR: Final = {"Metadata-Flavor": "Google"}
_METADATA: Final = "Google: the metadata endpoint"
_ACCOUNT: Final = "/computeMetadata/v1/instance/service-accounts/default"
_ASSERTION_S: Final = 3600
_HEADER: Final = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
_EMAIL: Final = re.compile(r"[!-~]{1,320}")


@dataclass(frozen=True, slots=True)
class GoogleToken:
    """The application default credentials of the machine that connects. ``tls`` adds trusted certificates to
    the system's authorities."""

    tls: Tls = Tls()

    @property
    def secrets(self) -> tuple[str, ...]:
        """No secrets: they are on the machine that connects."""
        return ()

    def fetch(self, _host: str, deadline: Deadline) -> Token:
        """A token in three parts.

        Raises ``AuthenticationError`` (fatal) if there are no credentials, ``TransportError`` (retriable).
        """
        path = _file()
        access, account = _of_machine(deadline) if path is None else _of_key_file(path, self.tls, deadline)
        now_s = time.time()
        times = {"exp": now_s + access.lifetime_s, "iat": now_s}
        claims = {**times, "iss": "Google", "scope": "kafka", "sub": account}
        parts = (json.dumps(_HEADER), json.dumps(claims), access.value)
        return Token(".".join(encoded(part.encode()) for part in parts), access.lifetime_s)


def _file() -> str | None:
    """The file of credentials; None if there is none: then the machine has an account."""
    if given := os.environ.get(_FILE):
        return given
    folder = os.environ.get("CLOUDSDK_CONFIG") or os.path.expanduser(os.path.join("~", ".config", "gcloud"))
    found = os.path.join(folder, "application_default_credentials.json")
    return found if os.path.exists(found) else None


def _of_key_file(path: str, tls: Tls, deadline: Deadline) -> tuple[Token, str]:
    """An access token for the key of a service account, and the name of the account."""
    found: dict[str, Any] = object_in(read_text(path, _FILE).encode())
    kind = found.get("type")
    if kind != "service_account":
        raise AuthenticationError(
            f"Google: {printable(path)} has credentials of type {printable(kind)}, and only service_account "
            "is read; for others set saslTokenProvider=package.module:function, which may use google-auth"
        )
    account, key = found.get("client_email"), found.get("private_key")
    address = found.get("token_uri") or _TOKEN_URL
    if not isinstance(account, str) or not isinstance(key, str) or not isinstance(address, str):
        raise AuthenticationError(
            f"Google: {printable(path)} lacks client_email or private_key; download it again"
        )
    now_s = int(time.time())
    times = {"iat": now_s, "exp": now_s + _ASSERTION_S}
    signer = Signer("RS256", key, name=f"Google: private_key of {printable(path)}")
    kid = found.get("private_key_id")
    header = {"kid": kid} if isinstance(kid, str) else {}
    assertion = signer.signed(header, {"iss": account, "aud": address, "scope": _SCOPE, **times})
    form = {"grant_type": JWT_GRANT, "assertion": assertion}
    url = https_url(address, f"token_uri of {_FILE}")
    return ask_for_token(url, {}, form, tls, f"the key of {_FILE}", deadline), account


def _of_machine(deadline: Deadline) -> tuple[Token, str]:
    """An access token of the machine's account, and the name of the account."""
    address = f"http://{os.environ.get(_HOST) or 'metadata.google.internal'}{_ACCOUNT}"
    try:
        found = object_of(f"{address}/token", _FLAVOR, _METADATA, deadline)
        email = metadata_of(f"{address}/email", _FLAVOR, _METADATA, deadline).decode("ascii", "replace")
    except TransportError as error:
        raise error.located(
            f"Google: set {_FILE} to a key file, or give the machine a service account: no file is set, and "
            "the metadata endpoint"
        ) from error
    token, account = found.get("access_token"), email.strip()
    if not isinstance(token, str) or not is_token(token) or not _EMAIL.fullmatch(account):
        raise AuthenticationError(
            f"{_METADATA} answers with no token of an account; give the machine a service account"
        )
    return Token(token, lifetime_of(found.get("expires_in"))), account
