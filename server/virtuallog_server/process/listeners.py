"""Listeners at the addresses of a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trio.abc import Listener

from virtuallog.contract.errors import InvalidSettingError
from virtuallog.rpc.transport import tcp_listen


async def listen(address: str) -> Sequence[Listener[Any]]:
    """Listen at `address`.

    Raises:
        InvalidSettingError: the address cannot be used.
    """
    try:
        return await tcp_listen(address)
    except OSError as error:
        raise InvalidSettingError(f"listen {address}", f"{error.strerror or error}") from error
