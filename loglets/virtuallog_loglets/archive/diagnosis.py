"""Evidence about an archive: its manifest, its files, its trims, and the hot copy while there is
one.

See `virtuallog.contract.diagnosis`. Offsets of an archive are positions of the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from virtuallog.contract.diagnosis import ANSWER_SECONDS, COMBINED, Evidence
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Clock
from virtuallog_loglets.archive.config import ArchiveConfig
from virtuallog_loglets.archive.core import manifest as manifests
from virtuallog_loglets.archive.core.manifest import ArchiveManifest
from virtuallog_loglets.archive.drivers.files import Files
from virtuallog_loglets.archive.drivers.trim_markers import marked_untrusted, trim_point

_UNKNOWN: Final[Mapping[str, Any]] = {"tail": None, "sealed": True, "trim": None, "by": [], "orders": []}


async def explain(config: ArchiveConfig, files: Files, clock: Clock) -> Sequence[Evidence]:
    """Evidence for the manifest, the data files, the trim markers and the hot copy."""
    blob, names, problem = None, dict[str, int](), f"{config.location} does not answer"
    try:
        with clock.timeout(ANSWER_SECONDS):
            blob, names, problem = await files.read(manifests.NAME), dict(await files.list()), ""
    except VirtualLogError as error:
        problem = str(error)
    if problem:
        return [Evidence("manifest", {}, problem), *_hot(config), Evidence(COMBINED, _UNKNOWN, problem)]
    try:
        manifest = manifests.decode_untrusted(blob, config.manifest) if blob is not None else None
    except VirtualLogError as error:
        return [Evidence("manifest", {}, str(error)), *_hot(config), Evidence(COMBINED, _UNKNOWN, str(error))]
    if manifest is None:
        problem = "there is none"
        return [Evidence("manifest", {}, problem), *_hot(config), Evidence(COMBINED, _UNKNOWN, problem)]
    return _whole(config, manifest, names)


def _whole(config: ArchiveConfig, manifest: ArchiveManifest, names: Mapping[str, int]) -> list[Evidence]:
    trim, marks = trim_point(manifest, names), marked_untrusted(names)
    needed = [file for file in manifest.files if file.stop > trim]
    missing = [file.name for file in needed if names.get(file.name) != file.bytes]
    problem = f"missing, or of another length: {', '.join(missing[:3])}" if missing else ""
    described = {"tail": manifest.stop, "sealed": True, "entries": manifest.entries, "writer": manifest.writer}
    data = {
        "files": len(needed),
        "bytes": sum(file.bytes for file in needed),
        "trimmed_files": len(manifest.files) - len(needed),
    }
    together = {"tail": manifest.stop, "undecided": 0, "by": ["manifest"], "sealed": True, "trim": trim, "orders": []}
    return [
        Evidence("manifest", described),
        Evidence("data files", data, problem),
        Evidence("trims", {"trim": trim, "markers": len(marks), "trimmed_when_made": manifest.trimmed}),
        *_hot(config),
        Evidence(COMBINED, together, problem),
    ]  # fmt: skip


def _hot(config: ArchiveConfig) -> list[Evidence]:
    hot = config.hot
    if hot is None:
        return []
    facts = {"kind": hot.kind, "loglet": str(hot.id), "release_at_ms": hot.release_at_ms}
    return [Evidence("hot copy", facts)]
