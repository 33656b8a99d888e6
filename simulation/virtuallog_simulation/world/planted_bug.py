"""Plants a bug: replaces a named function of product code for the length of one run.

A simulator that finds nothing proves nothing by itself. So tests plant known bugs and demand that they are found.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

_ABSENT = object()


@contextmanager
def planted(patches: Mapping[str, Any]) -> Iterator[None]:
    """Replace each "package.module:Class.function" by the given object, and put the original back in the end.

    Raises:
        LookupError: there is no such thing; a bug that is planted nowhere would never be found.
    """
    with ExitStack() as stack:
        for target in sorted(patches):
            stack.enter_context(_replaced(target, patches[target]))
        yield


@contextmanager
def _replaced(target: str, replacement: Any) -> Iterator[None]:
    module, _, path = target.partition(":")
    *parents, name = path.split(".")
    owner: Any = importlib.import_module(module)
    for parent in parents:
        owner = vars(owner).get(parent, _ABSENT)
    original = vars(owner).get(name, _ABSENT)
    if original is _ABSENT:
        raise LookupError(f"there is no {target} to replace")
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, original)
