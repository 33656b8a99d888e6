"""The names a person may use: scenarios, classes of faults, kinds of loglets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import attrs

from virtuallog import plugins
from virtuallog.contract.errors import InvalidSettingError
from virtuallog_simulation.faults import registry
from virtuallog_simulation.faults.crash_points import COUNTED, CRASH_POINT
from virtuallog_simulation.scenarios import registry as scenarios
from virtuallog_simulation.world.options import Options, cli_word
from virtuallog_simulation.world.scenario import Scenario

ALL: Final = "all"
NONE: Final = "none"


def chosen_scenarios(names: Sequence[str]) -> tuple[Scenario, ...]:
    """The scenarios of these names, each once; "all" stands for all of them.

    Raises:
        InvalidSettingError: there is none of that name.
    """
    if ALL in names:
        return scenarios.all_scenarios()
    return tuple(scenarios.find(name) for name in dict.fromkeys(names))


def resolved(options: Options) -> Options:
    """The same names, spelled as in the code; "one-way" may stand for "one way".

    A name that nothing has is refused: a run without the fault that was meant would look like a good one.

    Raises:
        InvalidSettingError: there is none of that name.
    """
    return attrs.evolve(
        options,
        faults=_known("faults", options.faults, fault_classes()),
        loglets=_known("loglets", options.loglets, loglet_kinds()),
    )


def _known(what: str, names: tuple[str, ...] | None, known: Collection[str]) -> tuple[str, ...] | None:
    if names is None:
        return None
    by_spelling = {cli_word(name): name for name in known}
    for name in names:
        if cli_word(name) not in by_spelling:
            raise InvalidSettingError(what, f"no '{name}' (known: {', '.join(sorted(by_spelling))})")
    return tuple(by_spelling[cli_word(name)] for name in names)


def fault_classes() -> Mapping[str, str]:
    """Every class of faults there is, with what happens."""
    return {fault.name: fault.about for fault in registry.CLASSES}


def struck(counts: Mapping[str, int]) -> tuple[str, ...]:
    """The classes that took effect, or may have: some share their counters."""
    took_effect = {name for name, count in counts.items() if count}
    found = [fault.name for fault in registry.CLASSES if took_effect & set(fault.counters)]
    if any(name.startswith(COUNTED) for name in took_effect):
        found.append(CRASH_POINT)
    return tuple(found)


def loglet_kinds() -> tuple[str, ...]:
    """Every kind of loglet that a chain of the simulator may have: all that are installed, and one of its own."""
    return tuple(sorted({*plugins.loglet_kinds(), "weak-seal"}))
