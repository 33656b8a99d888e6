"""Takes a data file that a former attempt has left, if it is whole and has what the hot copy has.

What its name says is checked against its content before anything of it is opened (`manifest.py` says why), and its content is
compared with the hot copy: whoever may write there could have put anything. That costs reading; encoding it again costs
several times as much.
"""

from __future__ import annotations

from virtuallog.errors import CorruptionError, MalformedError
from virtuallog_loglets.archive.checking import compare
from virtuallog_loglets.archive.digest import digest_of, trimmed_up_to
from virtuallog_loglets.archive.files import Files
from virtuallog_loglets.archive.making import Made, data_file, short
from virtuallog_loglets.archive.manifest import checksum
from virtuallog_loglets.archive.parquet import groups_untrusted, read_file_untrusted
from virtuallog_loglets.archive.rows import rows_of
from virtuallog_loglets.archive.source import Readable
from virtuallog_loglets.archive.spans import Span


async def adopt(span: Span, files: Files, source: Readable) -> Made | None:
    """The file of a span; None: it is torn, damaged, gone, not by us, or something else than the hot copy has.

    Raises:
        VirtualLogError: as `Files` and as the source.
    """
    assert span.found is not None
    content = await files.read(span.found)
    if content is None or f"-{short(checksum(content))}." not in span.found:
        return None
    try:
        return await _adopted(span, content, source)
    except (CorruptionError, MalformedError):
        return None


async def _adopted(span: Span, content: bytes, source: Readable) -> Made:
    described = data_file(content, span.stop, groups_untrusted(content, span.start), 0, 0, "")
    items = [item for group in read_file_untrusted(described, content) for item in group]
    await compare(source, described, items, span.start)
    entries, gaps = rows_of(items)
    file = data_file(content, span.stop, described.groups, entries, gaps, digest_of(items))
    if file.name != span.found:
        raise CorruptionError(f"file {span.found} of an archive is not what its name says")
    return Made(file, trimmed_up_to(items, 0))
