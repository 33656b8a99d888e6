"""A replacement must have the type of what it replaces. mypy proves it: were one of these accepted, its `ignore` would
be unused, which is an error of `make verify`."""

from __future__ import annotations

from collections.abc import Sequence

from tests.planted_bugs.mutant import mutant
from virtuallog.contract.types import Tail
from virtuallog.testing.weak_seal import WeakSealLoglet
from virtuallog_loglets.native.core import sequencer
from virtuallog_loglets.native.core.quorum import committed_tail
from virtuallog_metastore.core.quorum import Tally


@mutant(committed_tail, scenario="", found_by=[], used_in=sequencer)
def right_function(tails: Sequence[int], servers: int) -> int:
    """Right."""
    return servers


@mutant(Tally.complete, scenario="", found_by=[])
def right_property(self: Tally) -> bool:
    """Right."""
    return False


@mutant(WeakSealLoglet.check_tail, scenario="", found_by=[])  # type: ignore[arg-type]
async def one_argument_more(self: WeakSealLoglet, more: int) -> Tail:
    """Wrong."""
    raise NotImplementedError


@mutant(WeakSealLoglet.check_tail, scenario="", found_by=[])  # type: ignore[arg-type]
def not_async(self: WeakSealLoglet) -> Tail:
    """Wrong."""
    raise NotImplementedError


@mutant(committed_tail, scenario="", found_by=[])  # type: ignore[arg-type]
def another_type_of_argument(tails: Sequence[int], servers: str) -> int:
    """Wrong."""
    raise NotImplementedError


@mutant(committed_tail, scenario="", found_by=[])  # type: ignore[arg-type]
def another_result(tails: Sequence[int], servers: int) -> str:
    """Wrong."""
    raise NotImplementedError


@mutant(committed_tail, scenario="", found_by=[])  # type: ignore[arg-type]
def another_name_of_an_argument(tails: Sequence[int], machines: int) -> int:
    """Wrong: it may be passed by name."""
    raise NotImplementedError


def test_a_function_is_replaced_where_it_is_used() -> None:
    """One that was imported by name is looked up in the module that imported it."""
    assert right_function.target == "virtuallog_loglets.native.core.sequencer:committed_tail"


def test_a_property_stays_a_property() -> None:
    """The wrong getter is planted as one."""
    assert right_property.target == "virtuallog_metastore.core.quorum:Tally.complete"
    assert isinstance(right_property.replacement, property)
