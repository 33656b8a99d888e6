"""Archives by Spark: tasks make and verify the files of a closed segment, each a range of
positions; the driver publishes.

The format and the procedure are in `virtuallog_loglets.archive`. This package only distributes the
work.
"""
