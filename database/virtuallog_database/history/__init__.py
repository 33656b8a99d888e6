"""History of the tree: its changes over a range of the log, and the difference between two positions."""
