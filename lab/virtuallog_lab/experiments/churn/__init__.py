"""Experiment: a day of writes over the same znodes, compressed (`churn`): disk use, and the return of a wiped server."""
