"""Doubles and models of a database's parts: small real programs, for tests and for the simulator."""
