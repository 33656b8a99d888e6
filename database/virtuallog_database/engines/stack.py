"""Which engines there are, and in which order (SOSP'21, figure 6): the stack of Zelos.

    application
    Batching            group commit
    Lease               reads without a tail check at one replica; off until enabled
    SessionOrder        exactly once, in order
    ViewTracking        who takes part, what is held: trims
    Rollout             enables engines at one position
    Checksums           compares the states of all replicas
    Time                timers that fire at one position; off until enabled
    LogBackup           copies the log elsewhere; off until enabled
    BrainDoctor         raw writes, for emergencies
    Base                the virtual log

Lease stands above SessionOrder, which completes proposals by itself: otherwise it could not hold one back. What hands down trims stands
above what holds them back.

An Observer sits directly above every engine. To add an engine, put it into `zelos`: the rest of the stack need not know it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar

import attrs

from virtuallog.errors import VirtualLogError
from virtuallog.metrics import Family
from virtuallog.types import LogPosition
from virtuallog_database.engines.api import Application, Engine
from virtuallog_database.engines.base import Base, BaseSettings
from virtuallog_database.engines.batching import Batching, BatchingSettings
from virtuallog_database.engines.brain_doctor import BrainDoctor
from virtuallog_database.engines.checksums import Checksums, ChecksumSettings
from virtuallog_database.engines.layer import Layer, Surroundings
from virtuallog_database.engines.lease import Lease, LeaseSettings
from virtuallog_database.engines.log_backup import LogBackup, LogBackupSettings
from virtuallog_database.engines.observer import Observer, StackMeter
from virtuallog_database.engines.rollout import Rollout, RolloutSettings
from virtuallog_database.engines.session_order import SessionOrder, SessionOrderSettings
from virtuallog_database.engines.switches import BOUNDS, FLOOR
from virtuallog_database.engines.time import Time, TimeSettings
from virtuallog_database.engines.view_tracking import ViewSettings, ViewTracking

LayerT = TypeVar("LayerT", bound=Layer)

SAMPLE: Final = 16
"""Of so many commands one is measured, above Batching."""
KNOWN: Final = (
    BOUNDS,
    FLOOR,
    *(
        layer.name
        for layer in (Batching, Lease, SessionOrder, ViewTracking, Rollout, Checksums, Time, LogBackup, BrainDoctor)
    ),
)
"""Names of rules, and of the engines of `zelos`, the uppermost first."""


@attrs.frozen(kw_only=True)
class StackSettings:
    """How the engines of a stack behave, one field for each."""

    base: BaseSettings = attrs.field(factory=BaseSettings)
    session_order: SessionOrderSettings = attrs.field(factory=SessionOrderSettings)
    batching: BatchingSettings = attrs.field(factory=BatchingSettings)
    lease: LeaseSettings = attrs.field(factory=LeaseSettings)
    view: ViewSettings = attrs.field(factory=ViewSettings)
    rollout: RolloutSettings = attrs.field(factory=RolloutSettings)
    checksums: ChecksumSettings = attrs.field(factory=ChecksumSettings)
    time: TimeSettings = attrs.field(factory=TimeSettings)
    log_backup: LogBackupSettings = attrs.field(factory=LogBackupSettings)


Recipe: TypeAlias = Callable[[Surroundings, StackSettings], Sequence[Layer]]
"""Makes the engines above the base, the uppermost first."""


def zelos(surroundings: Surroundings, settings: StackSettings) -> Sequence[Layer]:
    """The stack of Zelos."""
    layers = [
        Batching(surroundings, settings.batching),
        Lease(surroundings, settings=settings.lease),
        SessionOrder(surroundings, settings=settings.session_order),
        view := ViewTracking(surroundings, settings=settings.view),
        rollout := Rollout(surroundings, settings=settings.rollout),
        Checksums(surroundings, settings=settings.checksums),
        Time(surroundings, settings=settings.time),
        LogBackup(surroundings, settings=settings.log_backup),
        BrainDoctor(surroundings),
    ]
    view.known = rollout.known = KNOWN
    return layers


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
