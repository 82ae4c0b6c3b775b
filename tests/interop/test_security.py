"""Our client at each listener of a real broker: logins that succeed, and errors of those that fail."""

from __future__ import annotations

import math
from typing import Any

import pytest

from spark_kafkawire.errors import (
    ConnectionLost,
    UnsupportedVersionError,
)
from spark_kafkawire.protocol import modern
from spark_kafkawire.protocol.modern.metadata import MetadataRequest
from tests.support.certificates import KEY_PASSWORD, Certificates
from tests.support.polling import poll

from .apache_kafka import LOGIN_MS, USERS, ApacheKafka
from .secured import MODULES, bearer, connect, is_served, login, refused, trust, unsecured_token
from .versions import newest_version


def test_the_highest_common_versions_are_spoken(kafka: ApacheKafka) -> None:
    with connect(kafka, "PLAINTEXT") as client:
        for api in modern.DIALECT.apis:
            newest = min(api.versions.max, newest_version(api, kafka.version))
            if newest < api.versions.min:
                with pytest.raises(UnsupportedVersionError):
                    client.version_of(api)
            else:
                assert client.version_of(api) == newest, api.name


def test_a_listener_that_wants_a_client_certificate_gets_one(
    kafka: ApacheKafka, certificates: Certificates
) -> None:
    for identity in (
        {"ssl__keystore__location": str(certificates.client)},
        {"ssl__keystore__location": str(certificates.client_encrypted), "ssl__key__password": KEY_PASSWORD},
    ):
        assert is_served(connect(kafka, "MTLS", **identity, **trust(certificates)))
    assert "kafka.ssl.keystore.location" in refused(kafka, "MTLS", **trust(certificates))
    stranger: dict[str, Any] = {"ssl__keystore__location": str(certificates.stranger)}
    assert "the server refuses the TLS connection" in refused(
        kafka, "MTLS", **stranger, **trust(certificates)
    )


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MODULES)
def test_users_log_in_with_their_password_alone(
    kafka: ApacheKafka, certificates: Certificates, listener: str, mechanism: str
) -> None:
    more: dict[str, Any] = trust(certificates) if listener == "SASL_SSL" else {}
    for user, password in USERS.items():
        assert is_served(connect(kafka, listener, **login(mechanism, user, password), **more))
    for user, password in (("alice", "wrong"), ("nobody", "alice-secret"), ("bob", USERS["alice"])):
        message = refused(kafka, listener, **login(mechanism, user, password), **more)
        assert f"SASL {mechanism}: the broker refuses the credentials (error 58" in message


def test_a_login_that_ends_is_made_again_or_the_broker_closes(kafka: ApacheKafka) -> None:
    how = login("SCRAM-SHA-256", "alice", USERS["alice"])
    with connect(kafka, "SASL_PLAINTEXT", **how) as client:
        poll(
            lambda: client._channel.is_login_due, "the client knows that its login ends soon", LOGIN_MS / 1000
        )
        assert client.request(MetadataRequest(topics=())).brokers
        assert not client._channel.is_login_due
    with connect(kafka, "SASL_PLAINTEXT", **how) as late:
        late._channel.logged_in(math.inf)

        def served() -> bool:
            return bool(late.request(MetadataRequest(topics=())).brokers)

        with pytest.raises(ConnectionLost, match="instead of answering Metadata"):
            poll(lambda: not served(), "the broker closes once the login has ended")


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_bearer_of_a_good_token_is_let_in(
    kafka: ApacheKafka, certificates: Certificates, listener: str
) -> None:
    more: dict[str, Any] = trust(certificates) if listener == "SASL_SSL" else {}
    assert is_served(connect(kafka, listener, **bearer(unsecured_token()), **more))
    expired = unsecured_token(exp=1_000_000_000, iat=999_999_000)
    for token in ("wr0ng-one", "a.b.c", unsecured_token(sub=7), expired, unsecured_token(exp=None)):
        message = refused(kafka, listener, **bearer(token), **more)
        assert "SASL OAUTHBEARER: the broker refuses the " in message
        assert token not in message
