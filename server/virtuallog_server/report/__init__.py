"""Pages that programs write about what they have seen: one HTML file each, which needs nothing else.

`Page` says what stands on it, `render` makes the text, `write` the file. A page opens from a disk, without a network, in light
and in dark, on a phone; its figures are drawn here, so that it is whole without JavaScript, which only adds a crosshair. All
text is escaped by the template; nothing that comes from outside is ever marked as safe.
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
