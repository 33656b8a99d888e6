"""Which engines are enabled, as a part of the state (`rollout.py` says what for).                                Pure.

An engine that is not there from the beginning asks `is_enabled(transaction, name)` in its `apply`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from database.engines import view
from database.engines.keys import section, section_span
from database.ports import Reading
from database.transaction import Transaction
from virtuallog.errors import OverloadedError, UnsupportedError

NAME: Final = "rollout"
SWITCHES_MAX: Final = 64
"""Engines that were ever switched, in one database. The paper has nine in four years."""
_ON: Final = b"\1"
_OFF: Final = b"\0"


@attrs.frozen
class Enable:
    engine: str


@attrs.frozen
class Disable:
    engine: str


def is_enabled(state: Reading | Transaction, engine: str) -> bool:
    """Whether this engine may write the store."""
    return state.get(section(NAME) + engine.encode()) == _ON


def switches(state: Reading) -> Mapping[str, bool]:
    """Every engine that was ever switched, and whether it is on."""
    found = state.scan(section_span(NAME), SWITCHES_MAX)
    return {key.removeprefix(section(NAME)).decode(): value == _ON for key, value in found}


def switch(transaction: Transaction, command: Enable | Disable) -> None:
    """Put the switch of an engine.

    Raises:
        UnsupportedError: a member of the view does not know it.
        OverloadedError: too many engines.
    """
    present = switches(transaction)
    if command.engine not in present and len(present) >= SWITCHES_MAX:
        raise OverloadedError(f"{SWITCHES_MAX} engines have been switched already")
    if isinstance(command, Enable):
        members = view.members(transaction)
        without = [name for name, member in members.items() if command.engine not in member.engines]
        if without or not members:
            raise UnsupportedError(f"engine {command.engine!r} is not known to {', '.join(without) or 'anybody'}")
    transaction.put(section(NAME) + command.engine.encode(), _ON if isinstance(command, Enable) else _OFF)
