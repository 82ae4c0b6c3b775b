"""A store to be read, and the error for one that cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from spark_kafkawire.errors import listed_some, quoted

#: Most names of keys that an error lists.
_LISTED_MAX: Final = 10
_CONVERSION: Final = "keytool -importkeystore -srckeystore FILE -destkeystore store.p12 -deststoretype PKCS12"


class StoreError(Exception):
    """A store that cannot be read: the reason and what to do, as the end of a line, without a secret."""


@dataclass(frozen=True, slots=True)
class Store:
    """The bytes of a store and its passwords, with the names of the options that the passwords are from.

    ``key_password`` is None for a key with the password of the store.
    """

    data: bytes = field(repr=False)
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    password_name: str = "the password of the store"
    key_password_name: str = "the password of the key"

    def wrong_password(self) -> StoreError:
        """The error for a store that its password does not open."""
        if self.password is None:
            return StoreError(f"it has a password; set {self.password_name}")
        return StoreError(
            f"{self.password_name} is not its password, or the file is damaged; check both with keytool -list"
        )

    def several_keys(self, aliases: Sequence[str]) -> StoreError:
        """The error for a store with more than one private key."""
        # An alias may be a password by accident.
        secrets = [secret for secret in (self.password, self.key_password) if secret]
        listed = listed_some(aliases, _LISTED_MAX, quoted)
        shown = "" if any(secret in alias for alias in aliases for secret in secrets) else f" ({listed})"
        return StoreError(
            f"it has {len(aliases)} private keys{shown}, and nothing says which one to use; copy one into a "
            "store of its own: keytool -importkeystore -srckeystore FILE -srcalias ALIAS -destkeystore NEW"
        )


def damaged(problem: str) -> StoreError:
    """The error for bytes that no tool writes."""
    return StoreError(f"the file is damaged: {problem}; copy it again from where it was made")


def no_key() -> StoreError:
    """The error for a store without a private key."""
    return StoreError("it has no private key; give the key store, not the trust store")


def no_trust() -> StoreError:
    """The error for a store without certificates, which would trust nobody."""
    return StoreError("it has no certificate to trust; add one with keytool -importcert")


def unsupported(kind: str) -> StoreError:
    """The error for a kind of store that nothing here reads."""
    return StoreError(f"{kind} stores are not supported; convert it: {_CONVERSION} -srcstoretype {kind}")
