"""The znodes of a ledger, by another client: made before it begins, and read after it has ended."""

from __future__ import annotations

from typing import Final

import trio

from tests.clients.ledger.judge import Found
from tests.clients.observer import Observer

GONE_SECONDS: Final = 90.0
"""Timeout until the ephemeral of a killed client is gone."""


async def make(observer: Observer, root: str) -> None:
    """Make what the program does not."""
    for path, data in (("entries", b""), ("presence", b""), ("register", b"0"), ("mirror", b"0")):
        await observer.call(observer.client.create, f"{root}/{path}", data, None, False, False, True)


async def find(observer: Observer, root: str) -> Found:
    """The state below `root`, after all that was answered to others. Waits until the ephemeral is gone."""
    await observer.sync()
    get = observer.client.get
    with trio.fail_after(GONE_SECONDS):
        while await observer.call(observer.client.exists, f"{root}/presence/alive"):
            await trio.sleep(0.05)
    present, presence = await observer.call(observer.client.get_children, f"{root}/presence", None, True)
    register, state = await observer.call(get, f"{root}/register")
    mirror, mirror_state = await observer.call(get, f"{root}/mirror")
    return Found(
        entries=await trio.to_thread.run_sync(_entries, observer, f"{root}/entries"),
        register=int(register),
        mirror=int(mirror),
        version=state.version,
        mirror_version=mirror_state.version,
        present=present,
        changes=presence.cversion,
    )


def _entries(observer: Observer, parent: str) -> dict[str, int]:
    paths = [f"{parent}/{name}" for name in observer.client.get_children(parent)]
    asked = [observer.client.get_async(path) for path in paths]
    return {path: int(each.get()[0]) for path, each in zip(paths, asked, strict=True)}
