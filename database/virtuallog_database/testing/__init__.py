"""Shipped doubles of what a database stands on: small real programs, for tests and for the simulator."""
