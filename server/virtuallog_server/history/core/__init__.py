"""Pure parts: how far back the log can be read, and rows of answers."""
