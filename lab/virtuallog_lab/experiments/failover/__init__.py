"""Experiments: the wait of a client after node failures (`kill`) and network partitions of real hosts (`hosts`)."""
