"""For tests of clients: what each of them saw is printed as one table at the end of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.clients.seen import PROPERTY, Note, spell, table


@pytest.fixture
def note(record_property: Callable[[str, object], None]) -> Note:
    """Notes a row for the table."""

    def record(client: str, ensemble: str, writes: int, unknown: int, events: int, gaps: Mapping[str, int]) -> None:
        record_property(PROPERTY, spell(client, ensemble, writes, unknown, events, gaps))

    return record


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.getreports("passed")
    rows = [str(value) for report in reports for name, value in report.user_properties if name == PROPERTY]
    if rows:
        terminalreporter.section("longest times without an acknowledged write")
        for line in table(rows):
            terminalreporter.write_line(line)
