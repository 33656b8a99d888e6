"""The looks at the place where archives are object to what they should object to, and to nothing else."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import attrs

from virtuallog.testing.checker.violation import Violation
from virtuallog.testing.sim.network import SimulatedNetwork
from virtuallog.testing.sim.object_store import FilesServer
from virtuallog.testing.sim.timeline import Timeline
from virtuallog_loglets.archive.config import ArchiveConfig
from virtuallog_loglets.archive.core import manifest as manifests
from virtuallog_loglets.archive.core.manifest import ArchiveManifest, DataFile, RowGroup, checksum
from virtuallog_loglets.archive.drivers.trim_markers import marker
from virtuallog_simulation.checks.cluster.archives import ARCHIVED, ArchiveWatch, archive_is_whole

DATA = b"four rows"
FILE = DataFile(
    name="rows.parquet", start=0, stop=4, entries=4, gaps=0, bytes=len(DATA), checksum=checksum(DATA), footer_bytes=4,
    footer_checksum=checksum(DATA[-4:]), groups=(RowGroup(0, 0, 5),),
)  # fmt: skip
BLOB = ArchiveManifest(
    cluster="c3", start=0, stop=4, trimmed=0, files=(FILE,), content=checksum(b""), writer="a test"
).encode()
CONFIG = ArchiveConfig(
    url="simulated://archives", directory="one", start=0, stop=4, manifest=checksum(BLOB), cluster="c3"
)
WHOLE = {manifests.NAME: BLOB, FILE.name: DATA}


def objections(there: Mapping[str, bytes], config: ArchiveConfig = CONFIG) -> list[str]:
    looked = Counter[str]()
    return [one.message for one in archive_is_whole(config, {config.location: there}, looked)]


def test_an_archive_that_is_whole_is_looked_at() -> None:
    """Looks are counted: a look that sees nothing finds nothing."""
    looked = Counter[str]()

    assert list(archive_is_whole(CONFIG, {CONFIG.location: WHOLE}, looked)) == []
    assert looked[ARCHIVED] == 1


def test_an_archive_without_its_manifest_is_not_whole() -> None:
    """It is not there, or is another one than the chain says."""
    other = attrs.evolve(CONFIG, manifest=checksum(b"another"))

    assert objections({FILE.name: DATA}) == ["simulated://archives/one has no manifest"]
    assert objections(WHOLE, other) == ["simulated://archives/one has another manifest than the chain says"]


def test_every_byte_counts() -> None:
    """A file is missing, or one of its bits is another."""
    assert "is missing" in objections({manifests.NAME: BLOB})[0]
    assert "is damaged" in objections({**WHOLE, FILE.name: b"four cows"})[0]


def test_what_is_trimmed_may_be_gone() -> None:
    """A marker says so."""
    assert objections({manifests.NAME: BLOB, marker(4): b""}) == []
    assert objections({manifests.NAME: BLOB, marker(3): b""}) != []


def test_a_manifest_before_its_files_is_noticed_at_once() -> None:
    """The writer may die at that moment."""
    network = SimulatedNetwork(Timeline(), random.Random(1))
    files, violations = FilesServer(network, random.Random(1)), list[Violation]()
    ArchiveWatch(files, Counter(), violations).start()

    files.directories[CONFIG.location] = dict(WHOLE)
    files.on_write(CONFIG.location, manifests.NAME, BLOB)
    assert violations == []

    del files.directories[CONFIG.location][FILE.name]
    files.on_write(CONFIG.location, manifests.NAME, BLOB)
    assert [one.check for one in violations] == ["manifest comes last"]
