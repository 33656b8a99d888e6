"""How tests share the machine: `make test` runs them in two processes (pytest-xdist).

Tests that start processes of their own go to the same one of the two, one after the other: side by side they would keep each other from
the time that their clusters need to elect, to notice and to recover.
"""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # examples take as long as the machine takes
settings.load_profile("untimed")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("processes"):
            item.add_marker(pytest.mark.xdist_group("processes"))
