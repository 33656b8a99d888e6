"""Commands of `virtuallog spark`: the module `x` holds the command `x`, and is imported when that
is called.

They are tools of the terminal, so unlike the source and the sink they may import
`virtuallog_server`.
"""
