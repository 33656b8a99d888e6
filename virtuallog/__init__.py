"""One log over interchangeable consensus protocols, swapped live.

    async with connect("cluster/cluster.toml") as log:
        await log.append(b"entry")

The names below are imported on first use: `import virtuallog` costs next to nothing, and a command that needs only an
error class does not load the client. They are the public API, with `virtuallog.contract` (for authors of loglets), `virtuallog.testing`,
`virtuallog.embedded`, `virtuallog.replica` and `virtuallog.state`, and `virtuallog.aio` for asyncio. The whole is described in docs/concepts/architecture.md.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from virtuallog.blocking import BlockingLog, connect_blocking
    from virtuallog.client.scan import scan
    from virtuallog.client.virtual_log import VirtualLog, VirtualLogSettings
    from virtuallog.connect import connect
    from virtuallog.contract.batch import Batch, SessionId
    from virtuallog.contract.types import (
        Data,
        Gap,
        GapKind,
        LogletOffset,
        LogPosition,
        NodeId,
        Open,
        PlacedBatch,
        Sealed,
    )

__all__ = [
    "connect",
    "connect_blocking",
    "scan",
    "VirtualLog",
    "VirtualLogSettings",
    "BlockingLog",
    "LogPosition",
    "LogletOffset",
    "NodeId",
    "SessionId",
    "Batch",
    "PlacedBatch",
    "Data",
    "Gap",
    "GapKind",
    "Open",
    "Sealed",
]

_MODULES = {
    "blocking": ("BlockingLog", "connect_blocking"),
    "client.scan": ("scan",),
    "client.virtual_log": ("VirtualLog", "VirtualLogSettings"),
    "connect": ("connect",),
    "contract.batch": ("Batch", "SessionId"),
    "contract.types": (
        "Data", "Gap", "GapKind", "LogletOffset", "LogPosition", "NodeId", "Open", "PlacedBatch", "Sealed",
    ),
}  # fmt: skip
"""Module of this package -> the names above that it defines."""
_HOMES = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}


if not TYPE_CHECKING:  # a type checker must not take every name for one that exists

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(_HOMES[name]), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """This package. `virtuallog.connect` is the function, also after the module of that name is imported."""

    def __setattr__(self, name: str, value: object) -> None:
        # The import system binds each submodule in its package, and would hide the function of the same name.
        if name in _HOMES and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
