"""RestorePlan of a restore, decided before anything is written, so that a resumed one makes the same.

"All there is" is more with each minute that the log is in use, and less with each trim. So it is
decided once, and so is the id of the new cluster. A directory has one plan, for good. The plan has
the request, too, and another request is refused.

Durable format `restore.json`, JSON without a version, as it is of no use once `origin.json` is
there:

    {"asked": {"position": null, "time_ms": 1793.., "since": null, "state": null, "history": null},
     "former": "f0..", "cluster": "c3..", "position": 4711, "state": true, "since": null}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from virtuallog.contract.errors import InvalidSettingError, MalformedError
from virtuallog.contract.register import ClusterId
from virtuallog.contract.types import LogPosition
from virtuallog_loglets.archive.core.json_fields import integer, object_of, text
from virtuallog_loglets.archive.drivers.files import Directory

NAME: Final = "restore.json"
_ID_BYTES: Final = 16


@attrs.frozen(kw_only=True)
class RestorePlan:
    """Decisions of one restore."""

    asked: Mapping[str, Any]
    """The request as plain values, by name."""
    former: bytes
    """The former cluster, whose log is restored."""
    cluster: ClusterId
    """The new cluster."""
    position: LogPosition
    """Everything below is restored."""
    state: bool
    """True if the state of a database is restored."""
    since: LogPosition | None
    """First position of the history. None if no history is restored."""

    def encode(self) -> bytes:
        fields = {**attrs.asdict(self), "former": self.former.hex(), "cluster": self.cluster.hex()}
        return json.dumps(fields).encode()

    def check(self, url: str, asked: Mapping[str, Any], former: bytes) -> None:
        """Check that this plan is for the same request. Raises InvalidSettingError: it is that of
        another restore."""
        if self.asked != asked or self.former != former:
            told = {name: value for name, value in self.asked.items() if value is not None}
            reason = f"{url} has, or is to have, another restore: of cluster {self.former.hex()}, {told or 'all of it'}"
            raise InvalidSettingError("into", reason)


def decode_untrusted(blob: bytes) -> RestorePlan:
    """Parse a plan. Raises MalformedError: not a plan."""
    try:
        fields = object_of(json.loads(blob))
        state, since = fields["state"], fields["since"]
        plan = RestorePlan(
            asked=object_of(fields["asked"]),
            former=bytes.fromhex(text(fields, "former")),
            cluster=ClusterId(bytes.fromhex(text(fields, "cluster"))),
            position=LogPosition(integer(fields, "position")),
            state=state is True,
            since=None if since is None else LogPosition(integer(fields, "since")),
        )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MalformedError(f"{NAME} is none: {blob[:100]!r}") from error
    if len(plan.cluster) != _ID_BYTES or not isinstance(state, bool):
        raise MalformedError(f"{NAME} is none: {blob[:100]!r}")
    return plan


async def read_plan(files: Directory, url: str) -> RestorePlan | None:
    """The plan in a directory. None if the directory is empty or missing.

    Raises:
        InvalidSettingError: something else is in it.
        MalformedError: the plan is damaged.
        VirtualLogError: as `Files`.
    """
    blob = await files.read(NAME)
    if blob is not None:
        return decode_untrusted(blob)
    if await files.list() or await files.directories():
        raise InvalidSettingError("into", f"{url} is not empty")
    return None


async def write_plan(files: Directory, plan: RestorePlan) -> RestorePlan:
    """Make this the plan of the directory; returns it, or that of a faster process. Durable on
    return."""
    await files.write(NAME, plan.encode(), replace=False)
    return decode_untrusted(await files.read(NAME) or b"")
