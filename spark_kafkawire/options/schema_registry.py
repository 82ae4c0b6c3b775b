"""Options of the connection to a schema registry, under the names that Confluent's clients have for them.

The module ``registry_settings`` reads their values. Only reads and writes with a registry import it.
"""

from __future__ import annotations

from .option import Group, after_colons, choice, option, string, whole
from .security import TlsOptions


class RegistryTls(TlsOptions, prefix="schema.registry.ssl."):
    """Options of TLS to registries."""


class Registry(Group):
    """The servers, the login and the certificates of a schema registry."""

    url = option("schema.registry.url", string).means(
        "`http://h:p` or `https://h:p`: the schema registry; several servers of one registry as `a,b`"
    )
    basic_source = option("basic.auth.credentials.source", choice("user_info")).means(
        "`USER_INFO`, the only supported source of a user and a password"
    )
    basic = option("basic.auth.user.info", string, secrets=after_colons(1)).means(
        "`user:password`: the login to the schema registry"
    )
    bearer_source = option("bearer.auth.credentials.source", choice("static_token", "oauthbearer")).means(
        "`STATIC_TOKEN` or `OAUTHBEARER`; by default as the other options of the login say"
    )
    token = option("bearer.auth.token", string, secrets=whole).means(
        "a token, instead of a user and a password"
    )
    token_url = option("bearer.auth.issuer.endpoint.url", string).means(
        "the https URL that gives tokens for the client below"
    )
    client_id = option("bearer.auth.client.id", string).means("the client that gets tokens")
    client_secret = option("bearer.auth.client.secret", string, secrets=whole).means(
        "the secret of that client"
    )
    scope = option("bearer.auth.scope", string).means("the scope of its tokens")
    logical_cluster = option("bearer.auth.logical.cluster", string).means(
        "the logical cluster of a registry in Confluent Cloud, for logins with a token"
    )
    identity_pool = option("bearer.auth.identity.pool.id", string).means(
        "the identity pool there, for logins with a token"
    )
    tls = RegistryTls
