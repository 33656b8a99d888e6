"""Finds the provider that a person, or the command line of another process, has named."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, Final

from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.provider import CompositeProvider
from virtuallog.plugins import loglet_kinds, loglet_maker
from virtuallog_simulation.world.cluster import ProviderMaker
from virtuallog_simulation.world.external_services import ZOOKEEPER, ExternalServices
from virtuallog_simulation.world.world import World

_SIMULATED: Final = {
    "native": (
        "virtuallog_simulation.scenarios.loglet.native:provider",
        "virtuallog_simulation.scenarios.loglet.native:roomy_provider",
    )
}
"""Our own kinds with small files, as simulated disks are kept in memory; and with files that take the largest batches."""
_MEMBERS: Final = ("kind", "contiguous", "interfaces", "plan", "describe", "open", "serve", "forget")


def is_path(name: str) -> bool:
    """True for `package.module:Class`, False for a kind."""
    return ":" in name


def find(name: str, *, roomy: bool = False) -> ProviderMaker:
    """Factory of providers of this name: an installed kind, or `package.module:Class`; any callable
    without arguments will do for the class. Modules in the current directory are found too.

    Args:
        name: see above.
        roomy: it will have to take the largest batches there are.

    Raises:
        InvalidSettingError: there is none, it cannot be imported, or what it makes is no provider.
    """
    name = _SIMULATED[name][roomy] if name in _SIMULATED else name
    make = _import(name) if is_path(name) else _installed(name)
    try:
        made = make()
    except Exception as error:
        raise InvalidSettingError(name, f"makes no provider: {type(error).__name__}: {error}") from error
    missing = [member for member in _MEMBERS if not hasattr(made, member)]
    if missing:
        raise InvalidSettingError(name, f"is no LogletProvider: it lacks {', '.join(missing)}")
    return make


def below(name: str, *, roomy: bool = False) -> tuple[ProviderMaker, ...]:
    """Factories of the kinds that loglets of this name consist of: native ones, if they consist of
    others at all.

    Raises: as `find`.
    """
    return (find("native", roomy=roomy),) if isinstance(find(name)(), CompositeProvider) else ()


def find_in(world: World, name: str, *, roomy: bool = False) -> ProviderMaker:
    """Like `find`; a kind that lives in a ZooKeeper gets a simulated one, which lives as long as
    this world."""
    return ExternalServices(world).zookeeper_provider if name == ZOOKEEPER else find(name, roomy=roomy)


def _installed(kind: str) -> ProviderMaker:
    known = loglet_kinds()
    if kind not in known:
        raise InvalidSettingError(kind, f"no kind of loglet (known: {', '.join(known)}), and no module:Class")
    return loglet_maker(kind)


def _import(path: str) -> ProviderMaker:
    here = os.getcwd()  # noqa: PTH109 - sys.path holds strings
    if here not in sys.path and "" not in sys.path:
        sys.path.insert(0, here)
    module, _, name = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, SyntaxError, ValueError) as error:
        raise InvalidSettingError(path, f"cannot be imported: {error}") from error
    make: ProviderMaker = found
    return make
