"""The work of `archive`, some of it shared with the commands of Spark: the selection of segments and the archive job. Imports the common parts."""
