"""The version of this package, in words that brokers take (KIP-511): ASCII letters, digits, dots, hyphens."""

from typing import Final

VERSION: Final = "0.1.0"
