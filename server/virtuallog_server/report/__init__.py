"""HTML reports: pages on which programs write their results, one file each, without any other file.

`Page` holds the content, `render` makes the text, `write` the file. A page opens from a disk, without a network, in light
and in dark, on a phone. Its figures are drawn here, so it is complete without JavaScript, which only adds a crosshair. The template
escapes all text; nothing from outside is ever marked as safe.
"""

from virtuallog_server.report.figures.axes import Axis
from virtuallog_server.report.figures.bars import Bar, Bars, Columns, Label
from virtuallog_server.report.figures.chain_diagram import Block, ChainDiagram
from virtuallog_server.report.figures.palette import PAINT, Tone
from virtuallog_server.report.figures.timeline import Band, Chart, Mark, Series, Span, Timeline
from virtuallog_server.report.kinds import tone_of
from virtuallog_server.report.page import FactList, Figure, Page, Section, Table, Verdict
from virtuallog_server.report.renderer import made_now, render, this_command, write

__all__ = [
    "Page",
    "Verdict",
    "Figure",
    "Section",
    "Timeline",
    "Band",
    "Span",
    "Chart",
    "Series",
    "Mark",
    "Axis",
    "Bars",
    "Bar",
    "Columns",
    "Label",
    "ChainDiagram",
    "Block",
    "Table",
    "FactList",
    "Tone",
    "tone_of",
    "PAINT",
    "made_now",
    "this_command",
    "render",
    "write",
]
