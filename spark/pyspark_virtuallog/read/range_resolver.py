"""Resolves the range of a read against the cluster, before it is planned: which log this is, where
the read begins and ends."""

from __future__ import annotations

from pathlib import Path

import attrs

from pyspark_virtuallog.clients import client
from pyspark_virtuallog.read import committed
from pyspark_virtuallog.read.filters import EVERYTHING, RowFilter
from pyspark_virtuallog.read.offsets import At, End, Offset, Place, Since
from pyspark_virtuallog.read.options import ReadOptions
from pyspark_virtuallog.read.task_plan import PlannedPiece, ReadTask, plan_tasks
from virtuallog.blocking import BlockingLog
from virtuallog.client.cluster_file import ClusterFile, read_cluster_file
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import BeyondTailError, InvalidSettingError, TrimmedError, WrongRecipientError
from virtuallog.contract.register import Register
from virtuallog.contract.types import LogPosition


@attrs.frozen
class Resolver:
    """A reader's access to its cluster, on the driver."""

    options: ReadOptions
    cluster: ClusterFile
    """Address of the cluster; executors get it, too."""

    @classmethod
    def of(cls, options: ReadOptions) -> Resolver:
        """Read the cluster file.

        Raises:
            InvalidSettingError: it cannot be read.
        """
        return cls(options, read_cluster_file(Path(options.cluster)))

    def start(self) -> Offset:
        """Start of the read.

        Raises:
            TrimmedError: that has been trimmed, and data must not be lost.
            BeyondTailError: nothing is there yet.
            WrongRecipientError: it is a position of another cluster.
        """
        place = self.options.start
        position = self.position_of(place)
        self._check_trim(position)
        return self._offset(position)

    def stop(self) -> Offset:
        """End of the read. Errors as of `start`."""
        return self._offset(self.position_of(self.options.stop))

    def tail(self) -> Offset:
        """Present tail of the log."""
        return self._offset(self.position_of(End.LATEST))

    def position_of(self, place: Place) -> int:
        """The position that `place` means now. Errors as of `start`."""
        log = self.log()
        match place:
            case End.EARLIEST:
                return max(log.find_trim_point(), log.register().chain.start)
            case End.LATEST:
                return log.check_tail().tail
            case Since(milliseconds):
                return log.find_time(milliseconds, patience=self.options.patience_seconds)
            case At(position, cluster):
                self.check_cluster(cluster or self.cluster_id())
                if position > (tail := log.check_tail().tail):
                    raise BeyondTailError(position, tail)
                return position

    def tasks(self, start: int, stop: int, wanted: RowFilter = EVERYTHING) -> list[ReadTask]:
        """Tasks that read [start, stop), or what becomes visible there, as far as the filter wants
        it.

        Raises:
            TrimmedError: a part of it has been trimmed by now, and data must not be lost.
        """
        if start >= stop:
            return []
        self._check_trim(start)
        pieces = [PlannedPiece(start=start, stop=stop)]
        if self.options.committed_only:
            pieces = self._visible(start, stop)
        pieces = [clipped for piece in pieces if (clipped := piece.clip(*wanted.range)) is not None]
        register = self.log().register()  # after the tail was known: the chain reaches as far
        nodes = sorted(register.nodes)
        return plan_tasks(pieces, register.chain, nodes, self.cluster, register.cluster.hex(), self.options)

    def check_cluster(self, expected: str) -> None:
        """Refuse to go on with another log. Asks the cluster.

        Raises:
            WrongRecipientError: it is another one.
        """
        found = self.log().register().cluster.hex()
        if found != expected:
            raise WrongRecipientError("cluster", expected, found)

    def cluster_id(self) -> str:
        """Cluster id in hexadecimal digits, as the client knows it; makes no call."""
        return self.log().run(_known).cluster.hex()

    def log(self) -> BlockingLog:
        """The client of this process."""
        return client(self.cluster, None, self.options.cluster_id, holds=self.options.hold is not None)

    def _offset(self, position: int) -> Offset:
        return Offset(self.cluster_id(), position)

    def _check_trim(self, start: int) -> None:
        if not self.options.fail_on_data_loss:
            return
        first = self.position_of(End.EARLIEST)
        if start < first:
            raise TrimmedError(first)

    def _visible(self, start: int, stop: int) -> list[PlannedPiece]:
        found = committed.plan(
            self.log(),
            LogPosition(start),
            LogPosition(stop),
            patience=self.options.patience_seconds,
            may_miss=not self.options.fail_on_data_loss,
        )
        return [PlannedPiece(start=part.start, stop=part.stop, winners=part.winners) for part in found]


async def _known(log: VirtualLog) -> Register:
    return await log.view.current()


def check_order(start: Offset, stop: Offset) -> None:
    """Check that a range is not reversed.

    Raises:
        InvalidSettingError: it is.
    """
    if stop.position < start.position:
        raise InvalidSettingError("endingOffsets", f"{stop.position} is before the start, {start.position}")
