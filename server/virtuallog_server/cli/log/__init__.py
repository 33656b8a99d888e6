"""The work of the commands on the log: `append`, `read`, `tail`, `trim`, `chain`, `reconfigure`, `truncate`, `seal`. Imports the common parts."""
