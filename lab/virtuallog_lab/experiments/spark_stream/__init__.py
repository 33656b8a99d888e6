"""Experiment: a Spark stream from a live log to Parquet, exactly once, while its driver and a node are killed (`stream`)."""
