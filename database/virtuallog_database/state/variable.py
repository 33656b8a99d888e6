"""Variables: named values with a version, and entries, their stored form.

Source: Mesos, `include/mesos/state/state.hpp`. A version is 16 random bytes, there a UUID.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.errors import InvalidSettingError

VERSION_BYTES: Final = 16
NAME_BYTES_MAX: Final = 1024
"""Longest name, in bytes of UTF-8."""


@attrs.frozen
class StateEntry:
    """A value with its version, as a storage keeps it under a name."""

    value: bytes
    version: bytes
    """VERSION_BYTES bytes, new with each write."""


@attrs.frozen
class Variable:
    """A value as it was fetched or stored. Immutable; made by `State` and by `mutate` only."""

    name: str
    value: bytes
    version: bytes
    """Version that a store of this variable replaces."""
    is_stored: bool
    """False if the name had no value when it was fetched: then `version` is a new one, and `value` is empty."""

    def mutate(self, value: bytes) -> Variable:
        """A copy with another value and the same version, for `State.store`."""
        return attrs.evolve(self, value=value)


def encode_name(name: str) -> bytes:
    """UTF-8 of the name of a variable. Any character is allowed, slashes and zeros too.

    Raises:
        InvalidSettingError: the name is empty, longer than NAME_BYTES_MAX, or no text (a lone surrogate).
    """
    try:
        encoded = name.encode()
    except UnicodeEncodeError as error:
        raise InvalidSettingError("name", f"{name!r} is not text: {error.reason}") from error
    if not 0 < len(encoded) <= NAME_BYTES_MAX:
        raise InvalidSettingError("name", f"a name has 1 to {NAME_BYTES_MAX} bytes, this one has {len(encoded)}")
    return encoded
