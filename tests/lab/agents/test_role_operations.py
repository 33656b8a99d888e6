"""Quotas and weights of roles. Names in capitals are those of the cases of Mesos' registrar_tests.cpp."""

from __future__ import annotations

import math

import pytest

from tests.lab.agents.memory_registrar import MemoryRegistrar
from virtuallog_database.registrar.core.edit import Edit
from virtuallog_lab.agents.records import OLD_QUOTAS, QUOTAS, WEIGHTS, OldQuota, QuotaConfig, Weight
from virtuallog_lab.agents.role_operations import UpdateQuota, UpdateWeights
from virtuallog_lab.agents.validation import MEGABYTES_MAX


def quota(role: str, cpus: float, limit: float) -> QuotaConfig:
    """A quota of cpus."""
    return QuotaConfig(role, {"cpus": cpus}, {"cpus": limit})


def test_update_quota() -> None:
    """UpdateQuota: set, changed for two roles at once, and reset to the default, which is not stored. The capability follows."""
    registrar = MemoryRegistrar()
    first = QuotaConfig("role1", {"cpus": 1, "mem": 1024}, {"cpus": 2, "mem": 2048})
    second = QuotaConfig("role2", {"cpus": 1, "mem": 1024}, {"cpus": 2, "mem": 2048})
    changed = [quota("role1", 2, 4), quota("role2", 2, 4)]
    story = [
        ([QuotaConfig("role1")], []),
        ([first], [first]),
        ([second], [first, second]),
        (changed, changed),
        ([QuotaConfig("role2")], changed[:1]),
        ([QuotaConfig("role1")], []),
    ]

    for configs, stored in story:
        assert registrar.apply(UpdateQuota(tuple(configs)))
        assert registrar.records(QUOTAS) == stored
        assert registrar.capabilities == (["QUOTA_V2"] if stored else [])


@pytest.mark.parametrize(
    "config",
    [
        QuotaConfig("role1", {}, {"mem": MEGABYTES_MAX + 1.0}),
        QuotaConfig("role1", {}, {"disk": MEGABYTES_MAX + 1.0}),
        QuotaConfig("role1", {"cpus": 1e12 + 1}, {}),
        QuotaConfig("role1", {"cpus": -1.0}, {}),
        QuotaConfig("role1", {"cpus": math.nan}, {}),
        QuotaConfig("role1", {}, {"cpus": math.inf}),
        QuotaConfig("role1", {}, {"cpus": 1e-320}),
        quota("role1", 3, 2),
        quota("", 1, 2), quota("a//b", 1, 2), quota("/a", 1, 2), quota("a/", 1, 2), quota("..", 1, 2), quota("-a", 1, 2),
        quota("a b", 1, 2), quota("a/*", 1, 2),
    ],
    ids=str,
)  # fmt: skip
def test_update_quota_invalid(config: QuotaConfig) -> None:
    """UpdateQuotaInvalid: more memory than an exabyte is refused; so are no numbers, no roles and a guarantee above its limit.
    Those beside it are not applied."""
    registrar = MemoryRegistrar()

    assert not registrar.apply(UpdateQuota((quota("role2", 1, 2), config, quota("role3", 1, 2))))
    assert registrar.stored == {}


def test_largest_quota() -> None:
    """The limits themselves are permitted, and so are nested roles and that of everybody else."""
    registrar = MemoryRegistrar()
    largest = {"mem": MEGABYTES_MAX, "disk": MEGABYTES_MAX, "cpus": 1e12}
    configs = tuple(QuotaConfig(role, largest, largest) for role in ("a/b/c", "*", "eng.x_1"))

    assert registrar.apply(UpdateQuota(configs))
    assert registrar.records(QUOTAS) == [*configs]


def test_zero_is_no_guarantee_but_a_limit() -> None:
    """So the first is the default quota, and the second is not."""
    registrar = MemoryRegistrar()

    assert registrar.apply(UpdateQuota((QuotaConfig("a", {"cpus": 0.0}), QuotaConfig("b", {}, {"cpus": 0.0}))))
    assert registrar.keys(QUOTAS) == ["b"]


class OldMaster:
    """What a master without the capability has stored."""

    def perform(self, edit: Edit) -> None:
        for role in "ab":
            edit.put(OLD_QUOTAS, role, OldQuota(role, {"cpus": 1.0}))


def test_a_new_quota_replaces_an_old_one() -> None:
    """The old-style quota of the same role vanishes, also with the default quota; that of another role stays."""
    registrar = MemoryRegistrar()
    assert registrar.apply(OldMaster())

    assert registrar.apply(UpdateQuota((QuotaConfig("b"),)))
    assert registrar.keys(OLD_QUOTAS) == ["a"] and registrar.capabilities == []
    assert registrar.apply(UpdateQuota((quota("a", 1, 2),)))
    assert registrar.keys(OLD_QUOTAS) == [] and registrar.capabilities == ["QUOTA_V2"]


def test_update_weights() -> None:
    """UpdateWeights: added, changed in place, and known to the next master. None, and the same again, are no change."""
    registrar = MemoryRegistrar()

    assert registrar.apply(UpdateWeights(())) and registrar.changes == 0
    assert registrar.apply(UpdateWeights((Weight("role1", 2.0),)))
    assert registrar.records(WEIGHTS) == [Weight("role1", 2.0)]
    later = (Weight("role2", 3.5), Weight("role1", 1.0))
    assert registrar.apply(UpdateWeights(later))
    assert registrar.records(WEIGHTS) == [Weight("role1", 1.0), Weight("role2", 3.5)]
    assert registrar.apply(UpdateWeights(later)) and registrar.changes == 0


@pytest.mark.parametrize("weight", [0.0, -1.0, math.nan, math.inf])
def test_a_weight_is_positive(weight: float) -> None:
    """Another one is refused, with those beside it."""
    registrar = MemoryRegistrar()

    assert not registrar.apply(UpdateWeights((Weight("a", 1.0), Weight("b", weight))))
    assert not registrar.apply(UpdateWeights((Weight("a b", 1.0),)))
    assert registrar.stored == {}
