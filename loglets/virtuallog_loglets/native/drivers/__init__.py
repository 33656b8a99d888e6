"""Drivers of a NativeLoglet: run the cores over network, clock and WAL, on a node or in a client.

May import core, messages, config and metrics of this kind.
"""
