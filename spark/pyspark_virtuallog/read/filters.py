"""Filters that Spark pushes down: dropped rows are not carried into the JVM, and excluded ranges
are not read.

A filter that is taken is applied here, exactly as in SQL, and nowhere else: a comparison with null
is not true. Filters on positions are applied when a read is planned, so they cost nothing; all
others when rows have been read. Times need that, too: they follow the positions only approximately.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
)

from pyspark_virtuallog.read.schema import SCHEMA
from virtuallog.contract.types import POSITION_MAX

LOG_STOP: Final = POSITION_MAX + 1
_POSITION: Final = "position"
_ORDERED: Final = frozenset({_POSITION, "time", "sequence", "size"})
"""Columns that may be compared by more than equality."""
_COLUMNS: Final = frozenset(field.name for field in SCHEMA)
_COMPARISONS: Final[dict[type[Filter], str]] = {
    EqualTo: "equal",
    GreaterThan: "greater",
    GreaterThanOrEqual: "greater_equal",
    LessThan: "less",
    LessThanOrEqual: "less_equal",
}
"""Function of Arrow for each class of filter."""


@attrs.frozen
class Condition:
    """One filter, in a form that can be sent to executors."""

    column: str
    function: str
    """Name in `pyarrow.compute`; `is_in` has a tuple as its value, `is_null` and `is_valid` none."""
    value: Any = None

    def mask(self, column: pa.Array) -> pa.Array:
        """True for rows that fulfil the condition; null is False."""
        if self.function in {"is_null", "is_valid"}:
            return pc.call_function(self.function, [column])
        if self.function == "is_in":
            return pc.is_in(column, value_set=pa.array(self.value, column.type))
        return pc.call_function(self.function, [column, pa.scalar(self.value, column.type)])


@attrs.frozen
class RowFilter:
    """Conjunction of filters."""

    range: tuple[int, int] = (0, LOG_STOP)
    """Range of positions [start, stop)."""
    conditions: tuple[Condition, ...] = ()
    """Conditions on rows."""

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that fulfil all conditions."""
        for condition in self.conditions:
            batch = batch.filter(condition.mask(_column(batch, condition.column)))
        return batch


EVERYTHING: Final = RowFilter()


def take(filters: Iterable[Filter]) -> tuple[RowFilter, Sequence[Filter]]:
    """Split filters into the RowFilter of those taken, and those that Spark has to apply itself."""
    wanted, others = RowFilter(), []
    for each in filters:
        condition = _condition(each)
        if condition is None:
            others.append(each)
        elif condition.column == _POSITION and type(each) in _COMPARISONS:
            wanted = _narrowed(wanted, condition)
        else:
            wanted = attrs.evolve(wanted, conditions=(*wanted.conditions, condition))
    return wanted, others


def _condition(given: Filter) -> Condition | None:
    """Condition of a filter. None if its kind is not taken."""
    path: tuple[str, ...] = getattr(given, "attribute", ())
    column = path[0].lower() if len(path) == 1 else ""
    if column not in _COLUMNS:
        return None
    if isinstance(given, IsNull):
        return Condition(column, "is_null")
    if isinstance(given, IsNotNull):
        return Condition(column, "is_valid")
    if isinstance(given, In):
        values = tuple(value for value in given.value if value is not None)
        return Condition(column, "is_in", values)
    function = _COMPARISONS.get(type(given))
    value = getattr(given, "value", None)
    if function is None or value is None or (function != "equal" and column not in _ORDERED):
        return None
    return Condition(column, function, value)


def _narrowed(wanted: RowFilter, condition: Condition) -> RowFilter:
    value = condition.value
    low, high = {
        "equal": (value, value + 1),
        "greater": (value + 1, LOG_STOP),
        "greater_equal": (value, LOG_STOP),
        "less": (0, value),
        "less_equal": (0, value + 1),
    }[condition.function]
    start, stop = wanted.range
    return attrs.evolve(wanted, range=(max(start, low), min(stop, high)))


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    names = [field.lower() for field in batch.schema.names]
    return batch.column(names.index(name))
