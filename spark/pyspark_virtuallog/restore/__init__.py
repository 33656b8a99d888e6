"""Restores a log, or the state of its database, as it was at one position: into the start of a new
cluster."""
