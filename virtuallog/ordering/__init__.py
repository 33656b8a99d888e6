"""For loglets in which one node orders batches: what it remembers of sessions and of refusals, so that a retry is harmless."""
