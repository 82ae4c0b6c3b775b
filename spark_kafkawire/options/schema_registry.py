"""Options of the connection to a schema registry, under the names that Confluent's clients have for them.

The module ``registry_settings`` reads their values. Only reads and writes with a registry import it.
"""

from __future__ import annotations

from typing import Any, Final

from .option import Option, after_colons, choice, option, string, whole
from .security import tls_options

URL: Final = option(
    "schema.registry.url",
    string,
    meaning="`http://h:p` or `https://h:p`: the schema registry; several servers of one registry as `a,b`",
)
BASIC_SOURCE: Final = option(
    "basic.auth.credentials.source",
    choice("user_info"),
    meaning="`USER_INFO`, the only supported source of a user and a password",
)
BASIC: Final = option(
    "basic.auth.user.info",
    string,
    meaning="`user:password`: the login to the schema registry",
    secrets=after_colons(1),
)
BEARER_SOURCE: Final = option(
    "bearer.auth.credentials.source",
    choice("static_token", "oauthbearer"),
    meaning="`STATIC_TOKEN` or `OAUTHBEARER`; by default as the other options of the login say",
)
TOKEN: Final = option(
    "bearer.auth.token", string, meaning="a token, instead of a user and a password", secrets=whole
)
TOKEN_URL: Final = option(
    "bearer.auth.issuer.endpoint.url",
    string,
    meaning="the https URL that gives tokens for the client below",
)
CLIENT_ID: Final = option("bearer.auth.client.id", string, meaning="the client that gets tokens")
CLIENT_SECRET: Final = option(
    "bearer.auth.client.secret", string, meaning="the secret of that client", secrets=whole
)
SCOPE: Final = option("bearer.auth.scope", string, meaning="the scope of its tokens")
LOGICAL_CLUSTER: Final = option(
    "bearer.auth.logical.cluster",
    string,
    meaning="the logical cluster of a registry in Confluent Cloud, for logins with a token",
)
IDENTITY_POOL: Final = option(
    "bearer.auth.identity.pool.id", string, meaning="the identity pool there, for logins with a token"
)
#: The options of TLS to registries. Those of trust are for the server of tokens, too.
TLS: Final = tls_options("schema.registry.ssl", None)
OF_BASIC: Final = (BASIC, BASIC_SOURCE)
OF_CLIENT: Final = (TOKEN_URL, CLIENT_ID, CLIENT_SECRET, SCOPE)
OF_TOKENS: Final = (TOKEN, BEARER_SOURCE, LOGICAL_CLUSTER, IDENTITY_POOL, *OF_CLIENT)
#: All options of a registry.
OPTIONS: Final[tuple[Option[Any], ...]] = (URL, *OF_BASIC, *OF_TOKENS, *TLS)
