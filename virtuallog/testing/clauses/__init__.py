"""The clauses of the loglet contract, one function each; `virtuallog.testing.loglet_suite` runs them."""
