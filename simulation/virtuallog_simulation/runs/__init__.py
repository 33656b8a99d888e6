"""Runs of one seed: the runner, the record of messages, the drawn bounds and the coverage demanded of many seeds."""
