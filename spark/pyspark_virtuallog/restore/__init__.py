"""Restores a log, or the state of its database, as it was at one position: into what a new cluster begins with."""
