"""Snapshots of a replica's state: taken, kept, served to peers, and restored from them."""
