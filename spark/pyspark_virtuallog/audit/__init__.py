"""The audit of a log: is it whole, does it keep its promises, what grows in it?

    rows of the table --observing--> observations --gathering--> evidence --judging--> findings --> page, summary, JSON
        in tasks, beside the reader     in Spark       on the driver, bounded: sums, and a few examples of each kind

Tasks turn some thousands of rows into some dozens of observations, so no payload ever reaches the JVM, and what Spark sorts by
session are runs of entries rather than entries. Only `source` and `gathering` know Spark; `page` knows `virtuallog_server.report`.
"""
