"""What stands on a page: a verdict first, then sections, then where and how it was made.                           Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

import attrs

from virtuallog_server.report.figures.bars import Bars, Columns
from virtuallog_server.report.figures.chain_diagram import ChainDiagram
from virtuallog_server.report.figures.timeline import Timeline


@attrs.frozen
class Figure:
    """A number that matters, and what it counts."""

    value: str
    label: str


@attrs.frozen(kw_only=True)
class Verdict:
    """What a reader should know if he reads nothing else."""

    headline: str
    problems: Sequence[str] = ()
    """If there are any, the verdict is bad."""
    figures: Sequence[Figure] = ()


@attrs.frozen(kw_only=True)
class Table:
    """Cells are as they shall be read."""

    part: ClassVar = "table"

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    figures: Sequence[int] = ()
    """The columns that hold figures: these stand on the right."""
    names: Sequence[str] = ()
    """The badge of the mark that each row tells about; the same number as rows, or none."""


@attrs.frozen
class FactList:
    """Names and values, or, with empty names, a list of sentences."""

    part: ClassVar = "facts"

    facts: Mapping[str, str] | Sequence[str]


Content: TypeAlias = ChainDiagram | Timeline | Columns | Bars | Table | FactList


@attrs.frozen(kw_only=True)
class Section:
    """A part of a page under a heading of its own."""

    title: str
    content: Content
    note: str = ""
    """What a reader must know to read it right."""


@attrs.frozen(kw_only=True)
class Page:
    """All of it."""

    title: str
    lead: str
    """One or two sentences: what was done."""
    verdict: Verdict
    sections: Sequence[Section]
    command: str
    """That made it."""
    made: str
    """When, and by which version."""
