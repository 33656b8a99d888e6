"""Archives by Spark: tasks make and verify the files of a closed segment, each a range of positions; the driver publishes.

What an archive is, and in which order one comes to be, is in `virtuallog_loglets.archive`; here is only how the work is dealt out.
"""
