"""For all tests. `make test` runs them in two processes (pytest-xdist), each test in whichever is free: clusters of processes may run side by
side, so no test may depend on how quick they are."""

from __future__ import annotations

import gc
import signal

from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # examples take as long as the machine takes
settings.load_profile("untimed")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that runs the tests in its background has it ignored, and every program that a test starts would ignore it as well.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Freeze all imported objects: the garbage collector need not visit the whole product and all tests again and again."""
    gc.collect()
    gc.freeze()
