"""The content of a page: a verdict first, then sections, then its origin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

import attrs

from virtuallog_server.report.figures.bars import Bars, Columns
from virtuallog_server.report.figures.chain_diagram import ChainDiagram
from virtuallog_server.report.figures.timeline import Timeline


@attrs.frozen
class Figure:
    """A number that matters, with its meaning."""

    value: str
    label: str


@attrs.frozen(kw_only=True)
class Verdict:
    """The result in one sentence, for a reader who reads nothing else."""

    headline: str
    problems: Sequence[str] = ()
    """Problems that were found. If there is one, the verdict is bad."""
    figures: Sequence[Figure] = ()


@attrs.frozen(kw_only=True)
class Table:
    """A table; its cells are texts."""

    part: ClassVar = "table"

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    figures: Sequence[int] = ()
    """Numbers of the columns with figures, which are aligned to the right."""
    names: Sequence[str] = ()
    """The badge of the mark that each row belongs to; as many as rows, or none."""


@attrs.frozen
class FactList:
    """Names and values; or, with empty names, a list of sentences."""

    part: ClassVar = "facts"

    facts: Mapping[str, str] | Sequence[str]


Content: TypeAlias = ChainDiagram | Timeline | Columns | Bars | Table | FactList


@attrs.frozen(kw_only=True)
class Section:
    """A part of a page under its own heading."""

    title: str
    content: Content
    note: str = ""
    """Note that a reader needs to understand the section."""


@attrs.frozen(kw_only=True)
class Page:
    """The whole content of a page."""

    title: str
    lead: str
    """One or two sentences on the program's work."""
    verdict: Verdict
    sections: Sequence[Section]
    command: str
    """The command that made the page."""
    made: str
    """Time, and version of the program."""
