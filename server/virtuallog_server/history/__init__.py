"""Reads of the past of a database, on a scratch store beside the cluster: from snapshots, backups and the log."""
