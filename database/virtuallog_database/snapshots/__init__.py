"""Snapshots of a replica's state: taken, kept, handed to peers, and restored from them."""
