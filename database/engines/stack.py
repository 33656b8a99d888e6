"""Which engines there are, and in which order (SOSP'21, figure 6): the stack of Zelos.

    application
    Batching            group commit
    SessionOrder        exactly once, in order
    BrainDoctor         raw writes, for emergencies
    Base                the virtual log

An Observer sits directly above every engine. To add an engine, put it into `zelos`: the rest of the stack need not know it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import attrs

from database.engines.api import Application, Engine
from database.engines.layer import Layer, Surroundings

LayerT = TypeVar("LayerT", bound=Layer)


@attrs.frozen(kw_only=True)
class StackSettings:
    """How the engines of a stack behave, one field for each."""


Recipe: TypeAlias = Callable[[Surroundings, StackSettings], Sequence[Layer]]
"""Makes the engines above the base, the uppermost first."""


def zelos(surroundings: Surroundings, settings: StackSettings) -> Sequence[Layer]:
    """The stack of Zelos."""
    return []


@attrs.frozen(eq=False)
class Stack:
    """Engines that are connected with each other."""

    layers: Sequence[Layer]
    """The uppermost first, without the base."""
    top: Engine
    """What the application proposes to."""

    def find(self, kind: type[LayerT]) -> LayerT | None:
        """The engine of this class, if the stack has one."""
        return next((layer for layer in self.layers if isinstance(layer, kind)), None)


def build(base: Layer, layers: Sequence[Layer], application: Application) -> Stack:
    """Connect these engines, the uppermost first, between `base` and `application`."""
    raise NotImplementedError
