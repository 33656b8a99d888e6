"""The base engine (SOSP'21, section 3): proposals into the virtual log, the log into the store.

Also shared tail checks, and the trimming of the log. Imports the layers and the pure core.
"""
