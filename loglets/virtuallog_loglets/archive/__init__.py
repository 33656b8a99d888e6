"""Archives: closed segments as Parquet files with a manifest, on any filesystem that fsspec knows. Read-only.

`manifest.py` and `rows.py` are the format, which every tool that writes archives keeps to: docs/howto/archive.md. `writing.py`
makes an archive, `verifying.py` reads it back, `reconfig_modify` puts it into the chain, `loglet.py` serves it.
"""

from virtuallog_loglets.archive.provider import ArchiveProvider

__all__ = ["ArchiveProvider"]
