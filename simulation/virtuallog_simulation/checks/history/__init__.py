"""Checks of a recorded history: pure functions that yield violations of what a log, a loglet or the register promises. Imports only the contract and `virtuallog.testing`."""
