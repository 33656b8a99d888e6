"""Archives: closed segments as Parquet files with a manifest, on any filesystem that fsspec knows.
Read-only.

The life of an archive:

    1. creation/archiver.py            `Archiver.run` takes a closed segment
    2. creation/archive_writer.py      writes the data files (`executor.py`, `data_files.py`), then the manifest
    3. creation/verification.py        reads it back and compares it with the hot copy
    4. reconfig_modify                 puts its config into the chain (outside this package)
    5. loglet.py                       serves it; drivers/trim_markers.py trims it
    6. creation/archiver.py            `config_to_put_back` is the way back to the hot copy

`core/manifest.py` and `core/rows.py` are the format, which every tool that writes archives must
follow: docs/howto/archive.md.
"""

from virtuallog_loglets.archive.provider import ArchiveProvider

__all__ = ["ArchiveProvider"]
