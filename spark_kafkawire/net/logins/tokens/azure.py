"""Bearer tokens of Microsoft Entra for Azure Event Hubs: of an application, a workload or a managed identity.

The environment variables are those of Azure's own programs, on the machine that connects. The first of these
that is complete is taken: ``AZURE_CLIENT_SECRET``, ``AZURE_FEDERATED_TOKEN_FILE`` (as in AKS),
``IDENTITY_ENDPOINT`` (as in App Service); else the metadata service of the machine.

Source: Microsoft identity platform, OAuth 2.0 client credentials flow; Azure Instance Metadata Service.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from spark_kafkawire.errors import AuthenticationError, TransportError
from spark_kafkawire.net.tls import Tls
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.secrecy import keep_secret

from .endpoint import ask_for_token, https_url, lifetime_of
from .metadata import object_of
from .token import Token, is_token
from .token_file import word_in

_AUTHORITY: Final = "AZURE_AUTHORITY_HOST"
_FEDERATED: Final = "AZURE_FEDERATED_TOKEN_FILE"
_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_MACHINE: Final = "AZURE_POD_IDENTITY_AUTHORITY_HOST"
_APP_SERVICE: Final = "Azure: the identity endpoint"
_METADATA: Final = "Azure: the metadata endpoint"


@dataclass(frozen=True, slots=True)
class AzureToken:
    """The identity of the machine that connects, for a scope such as
    ``https://NAMESPACE.servicebus.windows.net/.default``. ``tls`` adds trusted certificates to the system's
    authorities."""

    scope: str
    tls: Tls = Tls()

    @property
    def secrets(self) -> tuple[str, ...]:
        """No secrets: they are on the machine that connects."""
        return ()

    def fetch(self, _host: str, deadline: Deadline) -> Token:
        """A token of the identity.

        Raises ``AuthenticationError`` (fatal) if it is refused, ``TransportError`` (retriable).
        """
        names = ("AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", _FEDERATED)
        tenant, client, secret, path = (os.environ.get(name) for name in names)
        if tenant and client and secret:
            keep_secret(secret)
            return self._of_application(tenant, client, {"client_secret": secret}, names[2], deadline)
        if tenant and client and path:
            token = word_in(path, _FEDERATED)
            keep_secret(token)
            proof = {"client_assertion_type": _ASSERTION, "client_assertion": token}
            return self._of_application(tenant, client, proof, _FEDERATED, deadline)
        return self._of_machine(client, deadline)

    def _of_application(
        self, tenant: str, client: str, proof: Mapping[str, str], what: str, deadline: Deadline
    ) -> Token:
        authority = os.environ.get(_AUTHORITY) or "https://login.microsoftonline.com/"
        url = https_url(f"{authority.rstrip('/')}/{quote(tenant, safe='')}/oauth2/v2.0/token", _AUTHORITY)
        form = {"grant_type": "client_credentials", "client_id": client, "scope": self.scope, **proof}
        return ask_for_token(url, {}, form, self.tls, what, deadline)

    def _of_machine(self, client: str | None, deadline: Deadline) -> Token:
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
            return self._in(object_of(address, {"Metadata": "true"}, _METADATA, deadline), _METADATA)
        except TransportError as error:
            raise error.located(
                "Azure: set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or give the machine an "
                f"identity: the environment has none, and {_METADATA[7:]}"
            ) from error

    @staticmethod
    def _in(found: Mapping[str, Any], what: str) -> Token:
        token, expires_in = found.get("access_token"), found.get("expires_in")
        if not isinstance(token, str) or not is_token(token):
            raise AuthenticationError(f"{what} answers with no token; check the identity of the machine")
        if isinstance(expires_in, str) and expires_in.isascii() and expires_in.isdigit():
            expires_in = float(expires_in[:12])  # a number as text
        return Token(token, lifetime_of(expires_in))
