"""Provider of archives: opens them, says what nodes keep for them and for how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import attrs

from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.diagnosis import Evidence
from virtuallog.contract.errors import InvalidSettingError, MalformedError, UnknownKindError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.placement import Cluster
from virtuallog.contract.ports import Environment
from virtuallog.contract.provider import LogletProvider, RetainedLoglets, ServerlessProvider
from virtuallog.contract.types import LogPosition
from virtuallog.reconfiguration.retention import retained_loglets
from virtuallog_loglets.archive import diagnosis
from virtuallog_loglets.archive.config import ArchiveConfig, HotCopy, decode_untrusted
from virtuallog_loglets.archive.drivers.files import Files, OpenFiles
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles
from virtuallog_loglets.archive.loglet import ArchiveLoglet

KIND: Final = "archive"


@attrs.define(eq=False)
class ArchiveProvider(ServerlessProvider):
    """`LogletProvider` and `CompositeProvider` of the archive kind
    (`virtuallog.contract.provider`).

    See also `virtuallog.reconfiguration.retention`.
    """

    color: ClassVar = "brown"
    trials: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    crash_area: ClassVar = "clients that move a closed segment to an archive"

    open_files: OpenFiles = FsspecFiles
    """Opens the files of a URL; the simulator has its own."""
    _providers: Mapping[str, LogletProvider] = attrs.field(factory=dict, init=False)

    @property
    def kind(self) -> str:
        return KIND

    def over(self, providers: Mapping[str, LogletProvider]) -> None:
        self._providers = providers

    def plan(self, cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> bytes:
        raise InvalidSettingError("archive", "takes no appends; `virtuallog archive` puts closed segments there")

    def describe(self, config: bytes) -> Mapping[str, Any]:
        decoded = decode_untrusted(config)
        hot = {} if decoded.hot is None else {"hot": f"{decoded.hot.kind} {decoded.hot.id}",
                                              "release_at_ms": decoded.hot.release_at_ms}  # fmt: skip
        return {**decoded.others, "url": decoded.url, "directory": decoded.directory, **hot}

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Loglet:
        return self.open_archive(decode_untrusted(config), environment)

    def open_archive(self, config: ArchiveConfig, environment: Environment) -> ArchiveLoglet:
        """Open an archive whose config is not in the chain yet."""
        hot = None if config.hot is None else partial(self.open_hot, config.hot, environment)
        return ArchiveLoglet(config, self.files(config.location), environment.clock, hot)

    def files(self, url: str) -> Files:
        """Files of the archive at this URL."""
        return self.open_files(url)

    def open_hot(self, hot: HotCopy, environment: Environment) -> Loglet:
        """Open the loglet that an archive replaced.

        Raises:
            UnknownKindError: its kind is not installed here.
        """
        if hot.kind == KIND or hot.kind not in self._providers:
            raise UnknownKindError(hot.kind, ", ".join(sorted(self._providers)))
        return self._providers[hot.kind].open(hot.id, hot.config, environment)

    def loglets(self, segment: SegmentId, config: bytes) -> RetainedLoglets:
        """See `virtuallog.contract.provider.SupportsRetention`."""
        decoded = decode_untrusted(config)
        hot = decoded.hot
        if hot is None:
            return {}
        if hot.kind == KIND:
            raise MalformedError("the hot copy of an archive is an archive")
        start, stop = LogPosition(decoded.start), LogPosition(decoded.stop)
        kept = retained_loglets(
            Segment(id=hot.id, kind=hot.kind, config=hot.config, start=start, stop=stop), self._providers
        )
        if kept is None:
            raise MalformedError(f"no installed provider knows what a {hot.kind} loglet rests on")
        return kept

    async def explain(self, segment: SegmentId, config: bytes, environment: Environment) -> Sequence[Evidence]:
        """See `virtuallog.contract.provider.SupportsDiagnosis`."""
        decoded = decode_untrusted(config)
        return await diagnosis.explain(decoded, self.files(decoded.location), environment.clock)

    def released(self, config: bytes, now_ms: int) -> bytes | None:
        """See `virtuallog.contract.provider.SupportsTimedRelease`."""
        after = decode_untrusted(config).released(now_ms)
        return None if after is None else after.encode()
