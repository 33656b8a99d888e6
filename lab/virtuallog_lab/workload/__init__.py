"""Checked workloads: numbered entries, the writers that append them, the verdict on what is in the log, latencies and pauses. Imports `virtuallog` only."""
