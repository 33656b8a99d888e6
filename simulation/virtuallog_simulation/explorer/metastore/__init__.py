"""The MetaStore as a system to explore."""
