"""The list of servers in /zookeeper/config, for the model: the effect of `reconfig`.

Lines `server.N=ADDRESS`, in order of N, and a last one `version=HEX`, one higher with each change.
Written from docs/reference/zookeeper.md, "Reconfig and the list of servers".
"""

from __future__ import annotations

from virtuallog_database.tree.results import Error

ANY = -1


def change(
    data: bytes | None, joining: str | None, leaving: str | None, from_version: int
) -> tuple[Error, bytes | None]:
    """The error, or OK and the new content. One server joins, or one leaves."""
    *lines, last = (data or b"version=0").decode().split("\n")
    version = int(last.removeprefix("version="), 16)
    servers = {int(line.split("=")[0].removeprefix("server.")): line for line in lines}
    if from_version not in (ANY, version):
        return Error.BAD_VERSION, None
    if leaving is not None:
        servers.pop(int(leaving), None)
    if joining is not None:
        number = int(joining.split("=")[0].removeprefix("server."))
        if _is_participant(joining) and not _is_participant(servers.get(number, "")):
            return Error.BAD_ARGUMENTS, None
        _, port, election, *_ = joining.split(":")
        if port == election and servers.get(number) != joining:
            return Error.BAD_ARGUMENTS, None
        servers[number] = joining
    participants = sum(map(_is_participant, servers.values()))
    if not participants or participants == 1 < len(servers):
        return Error.BAD_ARGUMENTS, None
    text = [*(servers[number] for number in sorted(servers)), f"version={version + 1:x}"]
    return Error.OK, "\n".join(text).encode()


def _is_participant(line: str) -> bool:
    return ":participant" in line
