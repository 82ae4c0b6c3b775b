"""Bearer tokens from an authorization server: the client credentials grant over HTTPS.

Source: RFC 6749, 4.4; KIP-768, KIP-1139.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote_plus

from spark_kafkawire.net.tls import Tls
from spark_kafkawire.net.transport import Deadline

from .endpoint import OptionNames, Patience, ask_for_token, https_url
from .token import Token, current_token

OF_BROKERS: Final = OptionNames(
    "kafka.sasl.oauthbearer.token.endpoint.url", "clientId and clientSecret of kafka.sasl.jaas.config"
)
#: The same where the login is in options of its own.
IN_OPTIONS: Final = OF_BROKERS._replace(login="kafka.sasl.oauthbearer.client.credentials.*")


@dataclass(frozen=True, slots=True)
class ClientCredentials:
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
        pair = (self.client_id, self.client_secret)
        login = ":".join(quote_plus(each) if self.encodes_header else each for each in pair)
        headers = {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        url = https_url(self.endpoint_url, self.names.endpoint)
        return ask_for_token(url, headers, form, self.tls, self.names.login, deadline, self.patience)
