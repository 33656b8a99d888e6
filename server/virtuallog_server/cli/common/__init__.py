"""Shared parts of all commands: options, exit codes, missing extras, progress bars, the nodes of a cluster. Imports no command."""
