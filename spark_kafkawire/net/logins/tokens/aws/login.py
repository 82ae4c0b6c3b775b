"""The identity of AWS that logs in, found by AWS's own library (botocore), and the role that it assumes.

Source: aws-msk-iam-auth, the options of IAMLoginModule.
"""

from __future__ import annotations

import functools
import os
import re
import threading
from dataclasses import dataclass
from typing import Any, Final

from spark_kafkawire.errors import AuthenticationError, ConnectFailed, KafkaWireError, printable
from spark_kafkawire.net.logins.tokens.bounded import within
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.secrecy import keep_secret

from .signing import Keys

_REGION: Final = re.compile(r"[a-z]{2,4}(?:-[a-z]{2,12}){1,3}-[0-9]{1,2}")
_DOMAINS: Final = (".amazonaws.com", ".amazonaws.com.cn")
#: Codes of AWS's errors are shown, their prose is not.
_CODE: Final = re.compile(r"[A-Za-z]{1,64}")
_SERVER_ERROR: Final = 500


@dataclass(frozen=True, slots=True)
class AwsLogin:
    """An identity of AWS, by the options of Amazon's login module. Plain data; secrets are in no repr.

    Without a profile, credentials come from the machine that connects; ``role_keys`` replace them.
    """

    profile: str | None = None
    role_arn: str | None = None
    role_session_name: str = "spark-kafkawire"
    role_external_id: str | None = None
    role_keys: Keys | None = None
    sts_region: str | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may contain, even if a broker repeats them."""
        return () if self.role_keys is None else self.role_keys.secrets

    def keys(self, region: str, deadline: Deadline) -> Keys:
        """Valid credentials; botocore renews them in time.

        Raises ``AuthenticationError`` (fatal) if there are none, ``TransportError`` (retriable).
        """
        session = _session_of(self.profile)
        keys = within(deadline, "AWS: botocore finds no credentials", lambda: self._asked(session, region))
        keep_secret(*keys.secrets)
        return keys

    def _asked(self, session: Any, region: str) -> Keys:
        key = self, self.sts_region or region
        try:
            found = _kept.get(key) or self._found(session, *key[1:])
            frozen = None if found is None else found.get_frozen_credentials()
        except Exception as error:
            failure = _error_of(error)
        else:
            if frozen is not None:
                with _lock:
                    _kept[key] = found
                return Keys(frozen.access_key, frozen.secret_key, frozen.token or None)
            failure = AuthenticationError("botocore finds no credentials")
        named = "" if self.profile is None else f" of profile {printable(self.profile)}"
        # Outside of the handler: the text of botocore's error may have one of a server.
        raise type(failure)(
            f"AWS: {failure}{named} on the machine that connects; `aws sts get-caller-identity` there shows "
            "what is missing"
        )

    def _found(self, session: Any, region: str) -> Any:
        """Credentials that renew themselves, as AWS's own programs find them, single sign-on included."""
        from botocore.config import Config
        from botocore.credentials import (
            AssumeRoleCredentialFetcher,
            Credentials,
            DeferredRefreshableCredentials,
        )

        keys = self.role_keys
        found = Credentials(keys.access, keys.secret, keys.session) if keys else session.get_credentials()
        if found is None or self.role_arn is None:
            return found
        # Connections retry as a whole.
        client = functools.partial(
            session.create_client, region_name=region, config=Config(retries={"total_max_attempts": 1})
        )
        external = {"ExternalId": self.role_external_id} if self.role_external_id else {}
        fetcher = AssumeRoleCredentialFetcher(
            client, found, self.role_arn, extra_args={"RoleSessionName": self.role_session_name, **external}
        )
        return DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")


#: Credentials of botocore, which renew themselves, by login and region.
_kept: Final[dict[tuple[AwsLogin, str], Any]] = {}
_lock: Final = threading.Lock()


def forget_keys() -> None:
    """Forget all credentials of this process."""
    with _lock:
        _kept.clear()


def _session_of(profile: str | None) -> Any:
    """A session of botocore. Raises ``AuthenticationError`` (fatal) if it is not installed."""
    try:
        import botocore.session
    except ImportError:
        raise AuthenticationError(
            "AWS: credentials need AWS's own library: run pip install botocore, for the driver and the "
            "executors"
        ) from None
    return botocore.session.Session(profile=profile)


def _error_of(error: Exception) -> KafkaWireError:
    """The error for one of botocore, without its text."""
    from botocore.exceptions import ClientError, ConnectionError, HTTPClientError, SSLError

    name = printable(type(error).__name__)
    if isinstance(error, ClientError):
        code = str(error.response.get("Error", {}).get("Code"))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        shown = f"HTTP status {status}" + (f" {code}" if _CODE.fullmatch(code) else "")
        if status >= _SERVER_ERROR:
            return ConnectFailed(f"AWS STS answers with {shown}")
        return AuthenticationError(
            f"AWS STS refuses the role: {shown}; check the credentials and the trust policy of the role,"
        )
    if isinstance(error, SSLError):
        return AuthenticationError("the certificate of AWS STS is not trusted; set AWS_CA_BUNDLE to a file")
    if isinstance(error, (ConnectionError, HTTPClientError)):
        return ConnectFailed(f"botocore finds no credentials ({name})")
    return AuthenticationError(f"botocore finds no credentials ({name})")


def region_of(host: str, profile: str | None) -> str:
    """The region of a broker, from its host name; else that of the environment or of the profile.

    Raises ``AuthenticationError`` (fatal) if nothing names it.
    """
    if host.lower().endswith(_DOMAINS):
        for label in reversed(host.lower().split(".")):
            if _REGION.fullmatch(label):
                return label
    given = os.environ.get("AWS_REGION") or _region_of_profile(profile)
    if not given or not _REGION.fullmatch(given):
        raise AuthenticationError(
            f"AWS: the host name {printable(host)} has no region; set the environment variable AWS_REGION on "
            "the driver and on the executors"
        )
    return given


def _region_of_profile(profile: str | None) -> str | None:
    """The region of AWS_DEFAULT_REGION, or of the profile."""
    session = _session_of(profile)
    try:
        region: str | None = session.get_config_variable("region")
    except Exception:  # its text may have lines of the file of profiles
        return None
    return region
