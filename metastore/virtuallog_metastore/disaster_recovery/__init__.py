"""Recovery of a register whose members are lost: the exported register as a file, its correction by hand, and the first decision of the cluster that goes on from it. No I/O."""
