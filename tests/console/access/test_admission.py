"""Bounds of what is under way at a time, of all callers and of each."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from virtuallog.contract.caller_roles import Role
from virtuallog_console.access.admission import Admission, AdmissionLimits
from virtuallog_console.access.core.caller import Caller, Proof
from virtuallog_console.access.core.problem import ProblemError

ALICE, BOB, CAROL = (Caller(name, Role.CLIENT, Proof.PROXY) for name in ("alice", "bob", "carol"))
LIMITS = AdmissionLimits(requests=3, requests_of_caller=2, streams=2, streams_of_caller=1, buffers_bytes=100)


def test_a_caller_leaves_room_for_others() -> None:
    """Alice has as many as she may have; Bob has the rest; Carol waits. What ends makes room."""
    admission = Admission(LIMITS)
    with ExitStack() as held:
        for caller in (ALICE, ALICE):
            held.enter_context(admission.admit(caller, is_stream=False))
        for caller in (ALICE,):
            assert status_of(admission, caller) == 429
        with admission.admit(BOB, is_stream=False):
            assert status_of(admission, CAROL) == 429
        assert status_of(admission, CAROL) == 200
    assert admission.requests == 0


def test_streams_are_counted_apart() -> None:
    """Tails do not keep requests out, nor requests tails."""
    admission = Admission(LIMITS)
    with admission.admit(ALICE, is_stream=True), admission.admit(BOB, is_stream=True):
        assert status_of(admission, ALICE) == 200
        assert status_of(admission, CAROL, is_stream=True) == 429
        assert admission.streams == 2


def test_bytes_are_given_back() -> None:
    """Also by requests that fail in the middle."""
    admission = Admission(LIMITS)
    with admission.admit(ALICE, is_stream=False) as first, admission.admit(BOB, is_stream=False) as second:
        first.grow(60)
        first.grow(50)
        with pytest.raises(ProblemError) as refused:
            second.grow(41)
        assert refused.value.problem.headers == {"Retry-After": "1"}
        second.grow(40)
    with admission.admit(CAROL, is_stream=False) as third:
        third.grow(100)


def status_of(admission: Admission, caller: Caller, *, is_stream: bool = False) -> int:
    try:
        with admission.admit(caller, is_stream=is_stream):
            return 200
    except ProblemError as error:
        return error.problem.status
