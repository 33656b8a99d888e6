"""Backups of a log and of its database outside of the cluster, without Spark, and new clusters made of them."""
