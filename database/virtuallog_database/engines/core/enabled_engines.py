"""Switches: the enabled engines, as a part of the state (see `rollout.py`).

An engine that is not there from the beginning asks `is_enabled(transaction, name)` in its `apply`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from virtuallog.contract.errors import OverloadedError, UnsupportedError
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core import view
from virtuallog_database.engines.core.keys import section, section_span
from virtuallog_database.ports import StoreReader
from virtuallog_database.transaction import StoreTransaction

NAME: Final = "rollout"
BOUNDS: Final = "bounds"
"""Not an engine: rules of the tree, switched in the same way (`virtuallog_database.tree.bounds`).
Cannot be taken back."""
FLOOR: Final = "session_floor"
"""Not an engine: a rule of SessionOrderEngine, switched in the same way (`session_floor.py`); also
the name of its header. Cannot be taken back: proposers have started other incarnations, as no entry
of the former ones could be applied any more."""
STATE: Final = "state"
"""Not an engine: variables beside the tree (`virtuallog_database.state`). Switched on when one is first written."""
TABLE: Final = "table"
"""Not an engine: typed tables beside the tree (`virtuallog_database.table`). Switched on when a row is first written."""
SWITCHES_MAX: Final = 64
"""Most engines ever switched in one database. The paper has nine in four years."""
_ON: Final = b"\1"
_OFF: Final = b"\0"


@attrs.frozen
class Enable:
    engine: str


@attrs.frozen
class Disable:
    engine: str


def is_enabled(state: StoreReader | StoreTransaction, engine: str) -> bool:
    """True if this engine may write the store."""
    return enabled_at(state, engine) is not None


def key_of(engine: str) -> bytes:
    """Key of this engine's switch."""
    return section(NAME) + engine.encode()


def enabled_at(state: StoreReader | StoreTransaction, engine: str) -> LogPosition | None:
    """Log position where it was enabled. None if it is not. A changed position means that it was
    disabled in between."""
    stored = state.get(key_of(engine))
    return LogPosition(int.from_bytes(stored[1:], "big")) if stored and stored[:1] == _ON else None


def switches(state: StoreReader) -> Mapping[str, bool]:
    """Every engine that was ever switched, and True if it is on."""
    found = state.scan(section_span(NAME), SWITCHES_MAX)
    return {key.removeprefix(section(NAME)).decode(): value[:1] == _ON for key, value in found}


def switch(transaction: StoreTransaction, command: Enable | Disable, position: LogPosition) -> None:
    """Set the switch of an engine; durable format: 0, or 1 and the position of the command, u64,
    big-endian.

    Raises:
        UnsupportedError: when enabling, a member of the view does not know the engine; when
            disabling, none knows it, since a switch is never removed; or the switch cannot be taken
            back.
        OverloadedError: too many engines.
    """
    present = switches(transaction)
    if command.engine not in present and len(present) >= SWITCHES_MAX:
        raise OverloadedError(f"{SWITCHES_MAX} engines have been switched already")
    _check_known(transaction, command, command.engine in present)
    if isinstance(command, Enable) and is_enabled(transaction, command.engine):
        return
    value = _ON + position.to_bytes(8, "big") if isinstance(command, Enable) else _OFF
    transaction.put(key_of(command.engine), value)


def _check_known(transaction: StoreTransaction, command: Enable | Disable, is_switched: bool) -> None:
    if command == Disable(FLOOR) and is_enabled(
        transaction, FLOOR
    ):  # true on every replica: one with FLOOR enabled knows this rule
        raise UnsupportedError(f"{FLOOR!r} cannot be taken back")
    members = view.members(transaction)
    without = [name for name, member in members.items() if command.engine not in member.engines]
    if len(without) == len(members) and (isinstance(command, Enable) or not is_switched):
        raise UnsupportedError(f"engine {command.engine!r} is not known to any replica")
    if without and isinstance(command, Enable):
        raise UnsupportedError(f"engine {command.engine!r} is not known to {', '.join(without)}")
