"""Numbers and names that options show. They are repeated here, as `--help` must not import the modules that define them.

A test compares each with its original.
"""

from __future__ import annotations

from typing import Final

POSITION_MAX: Final = (1 << 63) - 1
"""`virtuallog.contract.types.POSITION_MAX`."""
ENTRY_BYTES_MAX: Final = 4 << 20
"""`virtuallog.contract.batch.ENTRY_BYTES_MAX`."""
GRACE_SECONDS: Final = 3600.0
"""`virtuallog_loglets.archive.config.GRACE_SECONDS`."""
PAXOS_OUTSTANDING_MAX: Final = 64
"""`virtuallog_loglets.paxos.standalone.log.OUTSTANDING_MAX`."""
RAFT_OUTSTANDING_MAX: Final = 64
"""`virtuallog_loglets.raft.standalone.client.SESSIONS_IDLE_MAX`."""
PAXOS_CONTENTS: Final = ("zero", "one", "random")
"""Values of `virtuallog_server.cli.paxos_log.trace.Content`."""
ROLES: Final = ("sequencer", "log-server", "replica")
"""`virtuallog_server.config.node_config.ROLES`."""
HISTORY_LIMIT_MAX: Final = 100_000
"""`virtuallog_server.history.past_database.LIMIT_MAX`."""
HISTORY_VALUE_BYTES: Final = 256
"""`virtuallog_server.history.past_database.VALUE_BYTES`."""
BACKUP_HOLD_SECONDS: Final = 604_800.0
"""`virtuallog_server.backup.backup_run.HOLD_SECONDS`."""
