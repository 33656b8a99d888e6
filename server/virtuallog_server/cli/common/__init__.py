"""The parts that all commands share: options, exit codes, missing extras, progress bars, the nodes of a cluster. Imports no command."""
