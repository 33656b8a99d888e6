"""Crash points of a LogServer: there is one for every change that an answer may rest on."""

from __future__ import annotations

from typing import get_args

from virtuallog_loglets.native.core.durable_state import Change, LogletSnapshot
from virtuallog_loglets.native.drivers.log_server_service import _DURABLE


def test_every_change_but_a_snapshot_has_its_crash_point() -> None:
    """A new kind of change needs one, or a reason like that of a snapshot: the WAL writes it by itself."""
    assert set(get_args(Change)) - {LogletSnapshot} == set(_DURABLE)
