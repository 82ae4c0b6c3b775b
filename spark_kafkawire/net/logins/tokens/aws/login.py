"""The identity of AWS that logs in: its credentials, by AWS's own library where it is installed, and a role.

Source: aws-msk-iam-auth, the options of IAMLoginModule.
"""

from __future__ import annotations

import os
import re
import threading
import time
from dataclasses import dataclass
from typing import Any, Final

from spark_kafkawire.errors import AuthenticationError, printable
from spark_kafkawire.net.logins.tokens.bounded import within
from spark_kafkawire.net.tls import Tls
from spark_kafkawire.net.transport import Deadline
from spark_kafkawire.secrecy import keep_secret

from .signing import Keys

#: The part of the lifetime of credentials after which new ones are requested.
_LIFETIME_USED: Final = 0.8
_REGION: Final = re.compile(r"[a-z]{2,4}(?:-[a-z]{2,12}){1,3}-[0-9]{1,2}")
_DOMAINS: Final = (".amazonaws.com", ".amazonaws.com.cn")


@dataclass(frozen=True, slots=True)
class AwsLogin:
    """An identity of AWS, by the options of Amazon's login module. Plain data; secrets are in no repr.

    Without a profile, credentials come from the machine that connects; ``role_keys`` replace them.
    ``tls`` adds trusted certificates to the system's authorities.
    """

    profile: str | None = None
    role_arn: str | None = None
    role_session_name: str = "spark-kafkawire"
    role_external_id: str | None = None
    role_keys: Keys | None = None
    sts_region: str | None = None
    tls: Tls = Tls()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no message may contain, even if a broker repeats them."""
        return () if self.role_keys is None else self.role_keys.secrets

    def keys(self, region: str, deadline: Deadline) -> Keys:
        """Valid credentials, from the cache or from where they are.

        Raises ``AuthenticationError`` (fatal) if there are none, ``TransportError`` (retriable).
        """
        with _lock:
            kept = _kept.get(self)
        if kept is not None and time.monotonic() < kept[1]:
            return _hidden(kept[0])
        keys = self._asked(region, deadline)
        if keys.lifetime_s:
            with _lock:
                _kept[self] = keys, time.monotonic() + _LIFETIME_USED * keys.lifetime_s
        return _hidden(keys)

    def _asked(self, region: str, deadline: Deadline) -> Keys:
        sts_region = self.sts_region or region
        keys = self.role_keys or self._own(sts_region, deadline)
        if self.role_arn is None:
            return keys
        from .sts import assume_role  # most identities have no role

        return assume_role(
            _hidden(keys),
            self.role_arn,
            self.role_session_name,
            self.role_external_id,
            sts_region,
            self.tls,
            deadline,
        )

    def _own(self, region: str, deadline: Deadline) -> Keys:
        try:
            import botocore.session
        except ImportError:
            from .places import found_keys

            return found_keys(self.profile, region, self.tls, deadline)
        return within(
            deadline,
            "AWS: botocore finds no credentials",
            lambda: _of_botocore(self.profile, botocore.session),
        )


#: Credentials of this process, each with the end of its use on the monotonic clock.
_kept: Final[dict[AwsLogin, tuple[Keys, float]]] = {}
#: Credentials of botocore, which renew themselves, by profile.
_of_library: Final[dict[str | None, Any]] = {}
_lock: Final = threading.Lock()


def forget_keys() -> None:
    """Forget all credentials of this process."""
    with _lock:
        _kept.clear()
        _of_library.clear()


def _of_botocore(profile: str | None, session: Any) -> Keys:
    """Credentials as AWS's own programs find them, single sign-on included. Errors show no text of botocore,
    which may have one of a server."""
    try:
        found = _of_library.get(profile) or session.Session(profile=profile).get_credentials()
        frozen = None if found is None else found.get_frozen_credentials()
    except Exception as error:
        failure = f"botocore finds no credentials ({printable(type(error).__name__)})"
    else:
        if frozen is not None:
            _of_library[profile] = found
            return Keys(frozen.access_key, frozen.secret_key, frozen.token or None)
        failure = "botocore finds no credentials"
    named = "" if profile is None else f" of profile {printable(profile)}"
    raise AuthenticationError(
        f"AWS: {failure}{named} on the machine that connects; `aws sts get-caller-identity` there shows "
        "what is missing"
    )


def _hidden(keys: Keys) -> Keys:
    keep_secret(*keys.secrets)
    return keys


def region_of(host: str, profile: str | None) -> str:
    """The region of a broker, from its host name; else that of the environment or of the profile.

    Raises ``AuthenticationError`` (fatal) if nothing names it.
    """
    if host.lower().endswith(_DOMAINS):
        for label in reversed(host.lower().split(".")):
            if _REGION.fullmatch(label):
                return label
    from .places import region_of_profile

    given = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or region_of_profile(profile)
    if not given or not _REGION.fullmatch(given):
        raise AuthenticationError(
            f"AWS: the host name {printable(host)} has no region; set the environment variable AWS_REGION on "
            "the driver and on the executors"
        )
    return given
