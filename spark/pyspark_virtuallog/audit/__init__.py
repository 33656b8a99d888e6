"""Audit of a log: checks that it is whole and keeps its promises, and shows what grows in it.

    rows of the table --observing--> observations --gathering--> evidence --judging--> findings --> page, summary, JSON
        in tasks, beside the reader     in Spark       on the driver, bounded: sums, and a few examples of each kind

Tasks turn some thousands of rows into some dozens of observations. So no payload ever reaches the
JVM, and Spark sorts runs of entries by session rather than entries. The steps are
`core.row_observer`, `aggregation` and `verdicts`. Only `source` and `aggregation` know Spark;
`page` knows `virtuallog_server.report`.
"""
