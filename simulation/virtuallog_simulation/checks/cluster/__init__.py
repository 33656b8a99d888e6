"""Checks of a running simulated cluster: disks, archives, rebuilt copies, acceptors at work, nodes that were removed. Imports `world` and the pure checks."""
