"""Checks of the database: results, sessions, watches, rights, replicas and the work of a command. Imports `checks.history` and `workload.database`."""
