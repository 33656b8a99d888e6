"""The model of many stripes: its parts do what their docstrings say, and no curve comes out that the assumptions forbid."""

from __future__ import annotations

import random
from itertools import permutations

import attrs
import pytest

from virtuallog_lab.experiments.stripes import report, run
from virtuallog_lab.experiments.stripes_model import Assumptions, Model, _Device, _Log, _Processor
from virtuallog_lab.harness.machine import Machine

SMALL = Assumptions(outstanding=32)


def test_a_position_is_acknowledged_when_all_lower_ones_are_stored() -> None:
    """In any order of the stores, each is acknowledged once, and not before all lower ones are there."""
    for order in permutations(range(4)):
        log, acknowledged, stored = _Log(), list[int](), set[int]()
        for position in order:
            stored.add(position)
            found = log.store(position, position)
            assert all(set(range(one)) <= stored for one in found)
            acknowledged += found
        assert acknowledged == [0, 1, 2, 3]


def test_a_device_writes_together_what_comes_during_a_write() -> None:
    """The first write takes those that came for it alone, the next one takes all that came meanwhile."""
    device = _Device(write_us=10.0)

    assert [device.write(now) for now in (0.0, 1.0, 9.0, 11.0, 100.0)] == [10.0, 20.0, 20.0, 30.0, 110.0]


def test_a_processor_serves_one_after_the_other() -> None:
    """An append that comes while it works waits."""
    processor = _Processor()

    assert [processor.serve(now, 4.0) for now in (0.0, 1.0, 20.0)] == [4.0, 8.0, 24.0]


@pytest.mark.parametrize("stripes", [1, 4])
def test_no_model_is_faster_than_its_slowest_part(stripes: int) -> None:
    """No model is faster than its slowest part, and none wastes much of it with enough outstanding appends."""
    found = Model(stripes, SMALL, random.Random(1)).run().appends_per_s
    bound = stripes * 1e6 / SMALL.sequencer_us

    assert 0.85 * bound < found < 1.05 * bound


def test_clients_bound_what_many_stripes_can_do() -> None:
    """Two slow clients, eight stripes."""
    assumed = attrs.evolve(SMALL, clients=2, client_us=100.0)

    assert Model(8, assumed, random.Random(1)).run().appends_per_s == pytest.approx(20_000, rel=0.05)


def test_the_report_says_in_each_title_that_it_is_a_model() -> None:
    """Each title names the model, and the same seed gives the same curve."""
    points = run(SMALL, [1, 2], 7)

    assert points == run(SMALL, [1, 2], 7)
    told = report(Machine.look(), SMALL, points)
    assert "MODEL" in told.title
    assert "MODEL" in told.tables[0].title
    assert told.tables[0].rows[0][-2] == "35,000"
