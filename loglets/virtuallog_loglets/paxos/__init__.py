"""The replicated log of Mesos, whole, and as a kind of loglet.

`messages.py` and `values.py` are the vocabulary, docs/internals/protocols/paxos.md has the rules. The cores are pure; each has a
driver that runs it over the ports.
"""

from virtuallog_loglets.paxos.provider import PaxosProvider

__all__ = ["PaxosProvider"]
