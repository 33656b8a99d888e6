"""The scenarios of `virtuallog simulate` and their one registry. No scenario imports the registry."""
