"""The MetaStore: one versioned register, decided by one single-slot Paxos per version (Delos, OSDI'20, section 4.1)."""

from virtuallog_metastore.provider import PaxosProvider

__all__ = ["PaxosProvider"]
