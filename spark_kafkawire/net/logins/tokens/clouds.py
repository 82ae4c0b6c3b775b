"""Bearer tokens of clouds: of Microsoft Entra for Azure Event Hubs, and of Google for its managed Kafka.

Metadata endpoints have plain http, at an address that only the machine reaches. Elsewhere nothing
answers there, so that the time to connect is short.

Azure: the environment variables are those of Azure's own programs, on the machine that connects. The first of
these that is complete is taken: ``AZURE_CLIENT_SECRET``, ``AZURE_FEDERATED_TOKEN_FILE`` (as in AKS),
``IDENTITY_ENDPOINT`` (as in App Service); else the metadata service of the machine.

Source: Microsoft identity platform, OAuth 2.0 client credentials flow; Azure Instance Metadata Service.

Google: the token has the three parts that its brokers want::

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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote, urlencode

from spark_kafkawire.errors import AuthenticationError, ConnectFailed, TransportError, printable
from spark_kafkawire.net.http import Url, ask, object_in
from spark_kafkawire.net.tls import Tls
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.secrecy import Credentials, keep_secret

from .oauth import JWT_GRANT, Signer, ask_for_token, encode_base64url, https_url, lifetime_of
from .token import Token, is_token, read_text, word_in

#: Longest time to connect, seconds.
DIAL_S: Final = 2.0
_OK: Final = 200


def metadata_of(address: str, headers: Mapping[str, str], what: str, deadline: Deadline) -> bytes:
    """The body of a good answer. ``what`` names the endpoint.

    Raises ``AuthenticationError`` (fatal) if it refuses, ``TransportError`` (retriable).
    """
    url = Url.parse(address)
    if url is None:
        raise AuthenticationError(f"{what}: its address is not a URL; correct the environment variable of it")
    bound = replace(deadline, dial_s=DIAL_S, dial_option="metadata endpoint")
    answer = ask(url, "GET", headers, None, None, bound)
    if answer.is_temporary:
        raise ConnectFailed(f"the endpoint answers with HTTP status {answer.status}; try again later")
    if answer.status != _OK:
        raise AuthenticationError(
            f"{what} refuses the request: HTTP status {answer.status}; check the identity of the machine"
        )
    return answer.body


def object_of(address: str, headers: Mapping[str, str], what: str, deadline: Deadline) -> dict[str, Any]:
    """The JSON object of a good answer. Raises as ``metadata_of`` does."""
    return object_in(metadata_of(address, headers, what, deadline)) or {}


_AUTHORITY: Final = "AZURE_AUTHORITY_HOST"
_FEDERATED: Final = "AZURE_FEDERATED_TOKEN_FILE"
_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_MACHINE: Final = "AZURE_POD_IDENTITY_AUTHORITY_HOST"
_APP_SERVICE: Final = "Azure: the identity endpoint"
_AZURE_METADATA: Final = "Azure: the metadata endpoint"


@dataclass(frozen=True, slots=True)
class AzureToken(Credentials):
    """The identity of the machine that connects, for a scope such as
    ``https://NAMESPACE.servicebus.windows.net/.default``. ``tls`` adds trusted certificates to the system's
    authorities."""

    scope: str
    tls: Tls = Tls()

    def fetch(self, _host: str, deadline: Deadline) -> Token:
        """A token of the identity.

        Raises ``AuthenticationError`` (fatal) if it is refused, ``TransportError`` (retriable).
        """
        names = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", _FEDERATED)
        tenant, client, secret, path = (os.environ.get(name) for name in names)
        if tenant and client and secret:
            keep_secret(secret)
            return self._ask_as_application(tenant, client, {"client_secret": secret}, names[2], deadline)
        if tenant and client and path:
            token = word_in(path, _FEDERATED)
            keep_secret(token)
            proof = {"client_assertion_type": _ASSERTION, "client_assertion": token}
            return self._ask_as_application(tenant, client, proof, _FEDERATED, deadline)
        return self._ask_as_machine(client, deadline)

    def _ask_as_application(
        self, tenant: str, client: str, proof: Mapping[str, str], what: str, deadline: Deadline
    ) -> Token:
        authority = os.environ.get(_AUTHORITY) or "https://login.microsoftonline.com/"
        url = https_url(f"{authority.rstrip('/')}/{quote(tenant, safe='')}/oauth2/v2.0/token", _AUTHORITY)
        form = {"grant_type": "client_credentials", "client_id": client, "scope": self.scope, **proof}
        return ask_for_token(url, {}, form, self.tls, what, deadline)

    def _ask_as_machine(self, client: str | None, deadline: Deadline) -> Token:
        resource = {"resource": self.scope.removesuffix("/.default")}
        chosen = {**resource, **({"client_id": client} if client else {})}
        endpoint, header = (os.environ.get(name) for name in ("IDENTITY_ENDPOINT", "IDENTITY_HEADER"))
        if endpoint and header and header.isprintable() and header.isascii():
            keep_secret(header)
            query = urlencode({"api-version": "2019-08-01", **chosen})
            headers = {"X-IDENTITY-HEADER": header}
            return self._in(object_of(f"{endpoint}?{query}", headers, _APP_SERVICE, deadline), _APP_SERVICE)
        base = os.environ.get(_MACHINE) or "http://169.254.169.254"
        query = urlencode({"api-version": "2018-02-01", **chosen})
        address = f"{base.rstrip('/')}/metadata/identity/oauth2/token?{query}"
        try:
            return self._in(
                object_of(address, {"Metadata": "true"}, _AZURE_METADATA, deadline), _AZURE_METADATA
            )
        except TransportError as error:
            raise error.locate(
                "Azure: set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or give the machine an "
                f"identity: the environment has none, and {_AZURE_METADATA[7:]}"
            ) from error

    @staticmethod
    def _in(found: Mapping[str, Any], what: str) -> Token:
        token, expires_in = found.get("access_token"), found.get("expires_in")
        if not isinstance(token, str) or not is_token(token):
            raise AuthenticationError(f"{what} answers with no token; check the identity of the machine")
        if isinstance(expires_in, str) and expires_in.isascii() and expires_in.isdigit():
            expires_in = float(expires_in[:12])  # a number as text
        return Token(token, lifetime_of(expires_in))


#: Environment variables of Google's own programs.
_FILE: Final = "GOOGLE_APPLICATION_CREDENTIALS"
_HOST: Final = "GCE_METADATA_HOST"
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_TOKEN_URL: Final = "https://oauth2.googleapis.com/token"
_FLAVOR: Final = {"Metadata-Flavor": "Google"}
_GOOGLE_METADATA: Final = "Google: the metadata endpoint"
_ACCOUNT: Final = "/computeMetadata/v1/instance/service-accounts/default"
_ASSERTION_S: Final = 3600
_HEADER: Final = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
_EMAIL: Final = re.compile(r"[!-~]{1,320}")


@dataclass(frozen=True, slots=True)
class GoogleToken(Credentials):
    """The application default credentials of the machine that connects. ``tls`` adds trusted certificates to
    the system's authorities."""

    tls: Tls = Tls()

    def fetch(self, _host: str, deadline: Deadline) -> Token:
        """A token in three parts.

        Raises ``AuthenticationError`` (fatal) if there are no credentials, ``TransportError`` (retriable).
        """
        path = _file()
        access, account = (
            _token_of_machine(deadline) if path is None else _token_of_key_file(path, self.tls, deadline)
        )
        now_s = time.time()
        times = {"exp": now_s + access.lifetime_s, "iat": now_s}
        claims = {**times, "iss": "Google", "scope": "kafka", "sub": account}
        parts = (json.dumps(_HEADER), json.dumps(claims), access.value)
        return Token(".".join(encode_base64url(part.encode()) for part in parts), access.lifetime_s)


def _file() -> str | None:
    """The file of credentials; None if there is none: then the machine has an account."""
    if given := os.environ.get(_FILE):
        return given
    folder = os.environ.get("CLOUDSDK_CONFIG") or os.path.expanduser(os.path.join("~", ".config", "gcloud"))
    result = os.path.join(folder, "application_default_credentials.json")
    return result if os.path.exists(result) else None


def _token_of_key_file(path: str, tls: Tls, deadline: Deadline) -> tuple[Token, str]:
    """An access token for the key of a service account, and the name of the account."""
    result: dict[str, Any] = object_in(read_text(path, _FILE).encode()) or {}
    kind = result.get("type")
    if kind != "service_account":
        raise AuthenticationError(
            f"Google: {printable(path)} has credentials of type {printable(kind)}, and only service_account "
            "is read; for others set saslTokenProvider=package.module:function, which may use google-auth"
        )
    account, key = result.get("client_email"), result.get("private_key")
    address = result.get("token_uri") or _TOKEN_URL
    if not isinstance(account, str) or not isinstance(key, str) or not isinstance(address, str):
        raise AuthenticationError(
            f"Google: {printable(path)} lacks client_email or private_key; download it again"
        )
    now_s = int(time.time())
    times = {"iat": now_s, "exp": now_s + _ASSERTION_S}
    signer = Signer("RS256", key, name=f"Google: private_key of {printable(path)}")
    kid = result.get("private_key_id")
    header = {"kid": kid} if isinstance(kid, str) else {}
    assertion = signer.signed(header, {"iss": account, "aud": address, "scope": _SCOPE, **times})
    form = {"grant_type": JWT_GRANT, "assertion": assertion}
    url = https_url(address, f"token_uri of {_FILE}")
    return ask_for_token(url, {}, form, tls, f"the key of {_FILE}", deadline), account


def _token_of_machine(deadline: Deadline) -> tuple[Token, str]:
    """An access token of the machine's account, and the name of the account."""
    address = f"http://{os.environ.get(_HOST) or 'metadata.google.internal'}{_ACCOUNT}"
    try:
        result = object_of(f"{address}/token", _FLAVOR, _GOOGLE_METADATA, deadline)
        email = metadata_of(f"{address}/email", _FLAVOR, _GOOGLE_METADATA, deadline).decode(
            "ascii", "replace"
        )
    except TransportError as error:
        raise error.locate(
            f"Google: set {_FILE} to a key file, or give the machine a service account: no file is set, and "
            "the metadata endpoint"
        ) from error
    token, account = result.get("access_token"), email.strip()
    if not isinstance(token, str) or not is_token(token) or not _EMAIL.fullmatch(account):
        raise AuthenticationError(
            f"{_GOOGLE_METADATA} answers with no token of an account; give the machine a service account"
        )
    return Token(token, lifetime_of(result.get("expires_in"))), account
