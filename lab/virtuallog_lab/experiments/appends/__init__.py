"""Experiment: the cost of an append, for the floor, a loglet alone and a VirtualLog on it (`append`)."""
