"""The ensembles themselves: what kills and starts do to a client, on ours and on real ZooKeeper alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.ensembles import ENSEMBLES, Open
from tests.clients.observer import observing

pytestmark = [pytest.mark.long, pytest.mark.processes]


@pytest.mark.parametrize("open_ensemble", ENSEMBLES)
async def test_a_client_goes_on_when_the_leader_is_killed_and_started_again(
    tmp_path: Path, open_ensemble: Open
) -> None:
    """Another server orders writes then; the killed one serves again, with all that was written meanwhile."""
    async with open_ensemble(tmp_path) as ensemble:
        async with observing(ensemble.hosts) as observer:
            leader = await ensemble.leader()
            await ensemble.kill(leader)
            await observer.call(observer.client.retry, observer.client.ensure_path, "/written")
            assert await ensemble.leader() != leader
            await ensemble.start(leader)
        async with observing(ensemble.addresses[leader - 1]) as observer:
            await observer.sync()
            assert await observer.call(observer.client.exists, "/written")
