"""A Raft log of one store, used by itself: append, read, trim. Each run finds what the runs before it have left."""

import sys
from pathlib import Path

import trio

from virtuallog_loglets.raft.standalone.facade import initialize, open_log


async def main(path: str) -> None:
    if not await trio.Path(path).exists():
        await initialize(Path(path), address="127.0.0.1:5051", founds=True)
    async with open_log(Path(path), listen="127.0.0.1:0") as log:
        offset = await log.append(f"run in {path}".encode())
        entries = await log.read(max(log.local.standing.trim, offset - 1), linearizable=True)
        sys.stdout.writelines(f"{entry.offset}  {entry.data.decode()}\n" for entry in entries)
        if len(entries) == 2:
            await log.trim(offset)


trio.run(main, sys.argv[1])
