"""Recovery of a register with lost members. No I/O.

The exported register as a file, its correction by hand, and the first decision of the cluster that
goes on from it.
"""
