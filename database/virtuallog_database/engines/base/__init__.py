"""The base engine (SOSP'21, section 3): proposals into the virtual log, the log into the store, shared tail checks, the trimming of the log. Imports the layers and the pure core."""
