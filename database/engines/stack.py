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
from typing import Final, TypeAlias, TypeVar

import attrs

from database.engines.api import Application, Engine
from database.engines.base import Base, BaseSettings
from database.engines.batching import Batching, BatchingSettings
from database.engines.brain_doctor import BrainDoctor
from database.engines.layer import Layer, Surroundings
from database.engines.observer import Observer, StackMeter
from database.engines.session_order import SessionOrder, SessionOrderSettings
from virtuallog.errors import VirtualLogError
from virtuallog.metrics import Family
from virtuallog.types import LogPosition

LayerT = TypeVar("LayerT", bound=Layer)

SAMPLE: Final = 16
"""Of so many commands one is measured, above Batching."""


@attrs.frozen(kw_only=True)
class StackSettings:
    """How the engines of a stack behave, one field for each."""

    base: BaseSettings = attrs.field(factory=BaseSettings)
    session_order: SessionOrderSettings = attrs.field(factory=SessionOrderSettings)
    batching: BatchingSettings = attrs.field(factory=BatchingSettings)


Recipe: TypeAlias = Callable[[Surroundings, StackSettings], Sequence[Layer]]
"""Makes the engines above the base, the uppermost first."""


def zelos(surroundings: Surroundings, settings: StackSettings) -> Sequence[Layer]:
    """The stack of Zelos."""
    return [
        Batching(surroundings, settings.batching),
        SessionOrder(surroundings, settings=settings.session_order),
        BrainDoctor(surroundings),
    ]


@attrs.frozen(eq=False)
class Stack:
    """Engines that are connected with each other, and with an application."""

    layers: Sequence[Layer]
    """From the base up."""
    top: Engine
    """What the application proposes to."""
    application: Application
    meter: StackMeter

    def find(self, kind: type[LayerT]) -> LayerT | None:
        """The engine of this class, if the stack has one."""
        return next((layer for layer in self.layers if isinstance(layer, kind)), None)

    def load(self) -> None:
        """Make all soft state from the store."""
        self.layers[0].load()
        self.reload()

    def reload(self) -> None:
        """The same once more, while the base goes on where it is: somebody has changed the store beside the layers."""
        for layer in self.layers[1:]:
            layer.load()
        self.application.load()

    def stop(self, error: VirtualLogError) -> None:
        """Tell `error` to all who wait."""
        for layer in self.layers:
            layer.stop(error)

    def snapshotted(self, position: LogPosition) -> None:
        """See `Layer.snapshotted`."""
        for layer in self.layers:
            layer.snapshotted(position)

    def metrics(self) -> list[Family]:
        """Of all layers."""
        return [*self.meter.metrics(), *(family for layer in self.layers for family in layer.metrics())]


def build(base: Base, layers: Sequence[Layer], application: Application) -> Stack:
    """Connect these engines, the uppermost first, between `base` and `application`."""
    clock, meter = base.surroundings.environment.clock, StackMeter()
    engine: Engine = base
    upward = [base, *reversed(layers)]
    for lower, upper in zip(upward, [*upward[1:], application], strict=True):
        lower.above = upper
        engine = Observer(lower, lower.name, meter, clock, SAMPLE if isinstance(lower, Batching) else 1)
        if isinstance(upper, Layer):
            upper.below = engine
    stack = Stack(upward, engine, application, meter)
    if (doctor := stack.find(BrainDoctor)) is not None:
        doctor.reload = stack.reload
    application.attach(engine, base.surroundings.store)
    return stack
