"""NativeLoglet: a sequencer orders waves of batches, LogServers store them, any majority can seal (Delos, section 4.2).

`messages.py` is the vocabulary. Pure cores: `sequencer.py`, `log_server.py`, `tail_check.py`; each has a driver that
runs it over the ports. docs/internals/protocols/native.md tells how they play together and which orders are dangerous.
"""

from virtuallog_loglets.native.provider import NativeProvider

__all__ = ["NativeProvider"]
