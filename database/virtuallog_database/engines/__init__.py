"""The engine stack of log-structured protocols (SOSP'21): everything between a state machine and
the log. `stack.py` has the order."""
