"""Experiment: a log is archived, compacted and trimmed under writes, and a wiped server starts from the compaction (`compact`)."""
