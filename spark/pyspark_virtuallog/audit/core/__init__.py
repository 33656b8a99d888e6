"""Pure parts of an audit: observations of a task, their sums, evidence, findings and summary. No
Spark session, no I/O."""
