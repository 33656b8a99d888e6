"""A log of one replica, used by itself: append, read, truncate. Each run finds what the runs before it have left."""

import sys

import trio

from virtuallog_loglets.paxos.standalone.facade import LogReader, LogWriter, open_log


async def main(path: str) -> None:
    async with open_log(path, quorum=1, auto_initialize=True) as log:
        reader, writer = LogReader(log), LogWriter(log)
        while await writer.start() is None:  # another writer was faster: here there is none
            pass
        position = await writer.append(f"run in {path}".encode())
        if position is None:
            sys.exit("maybe: start the writer again, and look")
        entries = await reader.read(await reader.beginning(), position)
        sys.stdout.writelines(f"{entry.position}  {entry.data.decode()}\n" for entry in entries)
        if len(entries) == 2:
            await writer.truncate(position)


trio.run(main, sys.argv[1])
