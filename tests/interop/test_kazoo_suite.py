"""Judgement on results of kazoo's suite: surprises in both directions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop import command_line, kazoo_suite

RESULTS = """<testsuites><testsuite>
<testcase classname="kazoo.tests.test_lock.KazooLockTests" name="test_lock"/>
<testcase classname="kazoo.tests.test_lock.KazooLockTests" name="test_two"><failure/></testcase>
<testcase classname="kazoo.tests.test_sasl.TestSASL" name="test_gssapi"><skipped/></testcase>
<testcase classname="kazoo.tests.test_client.TestClient" name="test_setup"><error/></testcase>
</testsuite></testsuites>"""


def test_a_failure_must_be_a_known_exception_and_a_known_exception_must_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception whose test passes has lost its reason, and must leave the documentation."""
    (tmp_path / "results.xml").write_text(RESULTS)
    results = kazoo_suite.read_results(tmp_path / "results.xml")
    lock, two = "test_lock.KazooLockTests::test_lock", "test_lock.KazooLockTests::test_two"

    assert results[lock] == "passed"
    assert list(kazoo_suite.judge(results)) == ["FAILED test_client.TestClient::test_setup", f"FAILED {two}"]
    monkeypatch.setattr(
        kazoo_suite, "EXCEPTIONS", {two: "because", lock: "no longer", "test_client.TestClient::test_setup": "so"}
    )
    assert list(kazoo_suite.judge(results)) == [f"PASSED, though it is said not to: {lock}"]


@pytest.mark.parametrize(
    "output",
    [
        "ls /\n\nWATCHER::\n\nWatchedEvent type:NodeCreated\n[a, b]\n",
        "ls /\n[\nWATCHER::\n\nWatchedEvent type:NodeCreated\na, b]\n",
        "\nWATCHER::\nls /\n\nWatchedEvent type:NodeCreated\n[a, b]\n",
    ],
)
def test_an_event_may_come_in_the_middle_of_an_answer(output: str) -> None:
    """ZooKeeper's command line prints it from another thread, in two steps: without it, the answer is whole."""
    assert command_line.parted(output) == ("ls /\n[a, b]\n", ["WatchedEvent type:NodeCreated"])
