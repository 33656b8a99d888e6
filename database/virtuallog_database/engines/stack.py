"""The engines and their order (SOSP'21, figure 6): the stack of Zelos.

    application
    BatchingEngine       group commit
    LeaseEngine          reads without a tail check at one replica; off until enabled
    SessionOrderEngine   exactly once, in order
    ViewTrackingEngine   members and holds: trims
    RolloutEngine        enables engines at one position
    ChecksumEngine       compares the states of all replicas
    TimeEngine           timers that fire at one position; off until enabled
    LogBackupEngine      copies the log elsewhere; off until enabled
    BrainDoctorEngine    raw writes, for emergencies
    BaseEngine           the virtual log

LeaseEngine stands above SessionOrderEngine, which completes proposals by itself: otherwise it could
not hold one back. An engine that passes trims down stands above those that hold trims back.

An ObserverEngine sits directly above every engine. To add an engine, put it into `database_recipe`:
the rest of the stack need not know it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.base.base_engine import BaseEngine, BaseSettings
from virtuallog_database.engines.batching import BatchingEngine, BatchingSettings
from virtuallog_database.engines.brain_doctor import BrainDoctorEngine
from virtuallog_database.engines.checksums import ChecksumEngine, ChecksumSettings
from virtuallog_database.engines.core.enabled_engines import BOUNDS, FLOOR, STATE, TABLE
from virtuallog_database.engines.layers.contract import Application, Engine
from virtuallog_database.engines.layers.layer import Layer, LayerContext
from virtuallog_database.engines.layers.observer import ObserverEngine, StackMetrics
from virtuallog_database.engines.lease import LeaseEngine, LeaseSettings
from virtuallog_database.engines.log_backup import LogBackupEngine, LogBackupSettings
from virtuallog_database.engines.rollout import RolloutEngine, RolloutSettings
from virtuallog_database.engines.session_order import SessionOrderEngine, SessionOrderSettings
from virtuallog_database.engines.time_engine import TimeEngine, TimeSettings
from virtuallog_database.engines.view_tracking import ViewSettings, ViewTrackingEngine

LayerT = TypeVar("LayerT", bound=Layer)

KNOWN: Final = (
    BOUNDS,
    FLOOR,
    STATE,
    TABLE,
    *(
        layer.name
        for layer in (
            BatchingEngine,
            LeaseEngine,
            SessionOrderEngine,
            ViewTrackingEngine,
            RolloutEngine,
            ChecksumEngine,
            TimeEngine,
            LogBackupEngine,
            BrainDoctorEngine,
        )
    ),
)
"""Names of rules, and of the engines of `database_recipe`, the uppermost first."""


@attrs.frozen(kw_only=True)
class StackSettings:
    """Settings of a stack's engines, one field for each."""

    base: BaseSettings = attrs.field(factory=BaseSettings)
    session_order: SessionOrderSettings = attrs.field(factory=SessionOrderSettings)
    batching: BatchingSettings = attrs.field(factory=BatchingSettings)
    lease: LeaseSettings = attrs.field(factory=LeaseSettings)
    view: ViewSettings = attrs.field(factory=ViewSettings)
    rollout: RolloutSettings = attrs.field(factory=RolloutSettings)
    checksums: ChecksumSettings = attrs.field(factory=ChecksumSettings)
    time: TimeSettings = attrs.field(factory=TimeSettings)
    log_backup: LogBackupSettings = attrs.field(factory=LogBackupSettings)


Recipe: TypeAlias = Callable[[LayerContext, StackSettings], Sequence[Layer]]
"""Factory of the engines above the base, the uppermost first."""


def database_recipe(context: LayerContext, settings: StackSettings) -> Sequence[Layer]:
    """The stack of Zelos: every engine of this package."""
    layers = [
        BatchingEngine(context, settings.batching),
        LeaseEngine(context, settings=settings.lease),
        SessionOrderEngine(context, settings=settings.session_order),
        view := ViewTrackingEngine(context, settings=settings.view),
        rollout := RolloutEngine(context, settings=settings.rollout),
        ChecksumEngine(context, settings=settings.checksums),
        TimeEngine(context, settings=settings.time),
        LogBackupEngine(context, settings=settings.log_backup),
        BrainDoctorEngine(context),
    ]
    view.known = rollout.known = KNOWN
    return layers


@attrs.frozen(eq=False)
class Stack:
    """Engines connected with each other, and with an application."""

    layers: Sequence[Layer]
    """Layers from the base up."""
    top: Engine
    """Engine to which the application proposes."""
    application: Application
    meter: StackMetrics

    def find(self, kind: type[LayerT]) -> LayerT | None:
        """The engine of this class. None if the stack has none."""
        return next((layer for layer in self.layers if isinstance(layer, kind)), None)

    def load(self) -> None:
        """Make all soft state from the store."""
        self.layers[0].load()
        self.reload()

    def reload(self) -> None:
        """Rebuild all soft state except the base's, after the store was changed outside `apply`."""
        for layer in self.layers[1:]:
            layer.load()
        self.application.load()

    def stop(self, error: VirtualLogError) -> None:
        """Pass `error` to all waiting callers."""
        for layer in self.layers:
            layer.stop(error)

    def snapshotted(self, position: LogPosition) -> None:
        """See `Layer.snapshotted`."""
        for layer in self.layers:
            layer.snapshotted(position)

    def metrics(self) -> list[MetricFamily]:
        """Metrics of all layers."""
        return [*self.meter.metrics(), *(family for layer in self.layers for family in layer.metrics())]


def build(base: BaseEngine, layers: Sequence[Layer], application: Application) -> Stack:
    """Connect these engines, the uppermost first, between `base` and `application`."""
    clock, meter = base.context.environment.clock, StackMetrics()
    engine: Engine = base
    upward = [base, *reversed(layers)]
    for lower, upper in zip(upward, [*upward[1:], application], strict=True):
        lower.above = upper
        engine = ObserverEngine(lower, lower.name, meter, clock)
        if isinstance(upper, Layer):
            upper.below = engine
    stack = Stack(upward, engine, application, meter)
    if (doctor := stack.find(BrainDoctorEngine)) is not None:
        doctor.reload = stack.reload
    application.attach(engine, base.context.store)
    return stack
