"""Drivers of a StripedLoglet: appends that wait for lower slots, fillers for idle stripes, calls to
all stripes.

May import core.
"""
