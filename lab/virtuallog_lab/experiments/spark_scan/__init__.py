"""Experiment: the log as a table of Spark beside a plain reader (`scan`)."""
