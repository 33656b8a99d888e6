"""Decisions by the first bytes of a connection."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog_lab.experiments.console_callers import client_hello
from virtuallog_server.process.console.first_bytes import OpeningVerdict, opening_of_http, opening_of_tls

HTTP = opening_of_http(100, 5.0)
TLS = opening_of_tls(5.0, b"use https")
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
SERVE, WAIT, REFUSE, REFUSE_SIZE = (
    OpeningVerdict.SERVE,
    OpeningVerdict.WAIT,
    OpeningVerdict.REFUSE,
    OpeningVerdict.REFUSE_SIZE,
)


@pytest.mark.parametrize(
    ("begin", "verdict"),
    [
        (REQUEST, SERVE),
        (b"\r\n" + REQUEST, SERVE),
        (b"M-SEARCH * HTTP/1.1\n\n", SERVE),
        (b"POST / HTTP/1.1\r\n\r\nbody", SERVE),
        (b"\r\n", WAIT),
        (b"POS", WAIT),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 80, WAIT),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 82, REFUSE_SIZE),
        (b"\r\n" * 51, REFUSE_SIZE),
        (b"\x16\x03\x01", REFUSE),
        (b"get / HTTP/1.1\r\n\r\n", REFUSE),
        (b"A" * 33, REFUSE),
        (b"SSH-2.0-x\r\n", REFUSE),
    ],
)
def test_a_head_of_http(begin: bytes, verdict: OpeningVerdict) -> None:
    """Served when it is whole, refused when it has no method or is too long."""
    assert HTTP.judge(begin) is verdict


@pytest.mark.parametrize(
    ("begin", "verdict"),
    [
        (b"\x16", WAIT),
        (b"\x16\x03\x01\x00\x05abcd", WAIT),
        (b"\x16\x03\x01\x00\x05abcde", SERVE),
        (b"\x16\x03\x01\x00\x05abcdef", SERVE),
        (b"\x16\x03\x01\x00\x00", REFUSE),
        (b"\x16\x03\x01\x40\x01", REFUSE),
        (b"\x17", REFUSE),
        (b"\x16\x02\x01\x00\x05abcde", REFUSE),
        (REQUEST, REFUSE),
    ],
)
def test_a_hello_of_tls(begin: bytes, verdict: OpeningVerdict) -> None:
    """Served when its record is whole, refused when it is none of a handshake, is empty or too long."""
    assert TLS.judge(begin) is verdict


@given(st.integers(0, 500))
def test_what_will_be_served_is_never_refused_before(count: int) -> None:
    """Segments may end anywhere: a part of a hello, or of a head, waits."""
    hello = client_hello()
    for opening, whole in ((TLS, hello), (HTTP, REQUEST)):
        begin = whole[:count]
        assert opening.judge(begin) is (SERVE if begin == whole else WAIT)


@given(st.binary(max_size=200))
def test_enough_bytes_are_a_decision(more: bytes) -> None:
    """With as many bytes as are looked at, no connection waits on."""
    for opening, begin in ((HTTP, b"GET "), (TLS, client_hello()[:5]), (HTTP, b""), (TLS, b"")):
        filled = begin + more
        filled += b"x" * (opening.bytes_max - len(filled))
        assert opening.judge(filled[: opening.bytes_max]) is not WAIT
