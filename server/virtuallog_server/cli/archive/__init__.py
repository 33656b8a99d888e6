"""The command `archive`, and what it shares with the commands of Spark: the selection of segments and the archive job. Imports the common parts."""
