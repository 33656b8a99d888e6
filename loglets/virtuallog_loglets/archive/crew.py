"""Who makes and verifies the data files of an archive: one file after the other in this process, or many tasks elsewhere.

What is the same for all of them is in `writing.py` and `verifying.py`: what is to be done, in which order, and when there is an
archive. A crew decides only how work on files is dealt out; each piece is `make_span` or `verify_file`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import attrs

from virtuallog.crash_points import CrashPoint
from virtuallog.errors import CorruptionError
from virtuallog_loglets.archive.adopting import adopt
from virtuallog_loglets.archive.checking import Checked, verify_file
from virtuallog_loglets.archive.digest import ContentDigest
from virtuallog_loglets.archive.files import Files
from virtuallog_loglets.archive.making import Made, Sizes, make_file
from virtuallog_loglets.archive.manifest import Manifest
from virtuallog_loglets.archive.source import Readable
from virtuallog_loglets.archive.spans import Span

_FILE = CrashPoint("archive: one file more is written, there is no manifest")

Tell: TypeAlias = Callable[[int], None]
"""Told up to which position it is done; if several work at once, as if all that is done lay at the beginning."""


class Crew(Protocol):
    """Works on the files of one archive."""

    @property
    def compares(self) -> bool:
        """Whether there is a hot copy."""
        ...

    async def make(self, spans: Sequence[Span], tell: Tell) -> Sequence[Made]:
        """Files that cover these spans, in order; durable on return. Cancelled, some may be there, which the next one finds.

        Raises:
            VirtualLogError: as `Files` and as the segment's loglet.
        """
        ...

    async def verify(self, manifest: Manifest, trimmed: int, tell: Tell) -> Sequence[Checked]:
        """What was found of each file of an archive, in order. All that is there is right, and what the hot copy has.

        Args:
            manifest: of the archive.
            trimmed: what is below may be missing.
            tell: of progress.

        Raises: as `Verifying.run`.
        """
        ...


@attrs.frozen(eq=False)
class OneByOne:
    """In this process, in order. Implements `Crew`."""

    source: Readable | None
    """The hot copy, if there is one; nothing can be made without."""
    files: Files
    sizes: Sizes = attrs.field(factory=Sizes)

    @property
    def compares(self) -> bool:
        return self.source is not None

    async def make(self, spans: Sequence[Span], tell: Tell) -> Sequence[Made]:
        assert self.source is not None
        made = list[Made]()
        for span in spans:
            made += await make_span(span, self.source, self.files, self.sizes, tell)
        return made

    async def verify(self, manifest: Manifest, trimmed: int, tell: Tell) -> Sequence[Checked]:
        found, whole = list[Checked](), ContentDigest()
        for file in manifest.files:
            also = None if manifest.is_by_file else whole
            one = await verify_file(file, manifest, self.files, self.source, trimmed, also)
            trimmed = max(trimmed, one.trimmed)
            found.append(one)
            tell(file.stop)
        is_all = not manifest.is_by_file and all(one.is_there for one in found)
        if is_all and whole.checksum() != manifest.content:
            raise CorruptionError("the entries of an archive do not match the checksum of its content")
        return found


async def make_span(
    span: Span, source: Readable, files: Files, sizes: Sizes, tell: Tell = lambda position: None
) -> list[Made]:
    """The files of a span, in order: the one that is there already, if it is right, else as many as it takes.

    Raises: as `Crew.make`.
    """
    adopted = None if span.found is None else await adopt(span, files, source)
    if adopted is not None:
        tell(span.stop)
        return [adopted]
    made, at = list[Made](), span.start
    while at < span.stop:
        content, one = await make_file(source, at, span.stop, sizes)
        await files.write(one.file.name, content)
        _FILE.reached()
        made.append(one)
        at = one.file.stop
        tell(at)
    return made
