"""Questions about the past of a database, and what they cost its servers."""
