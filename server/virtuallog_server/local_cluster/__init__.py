"""A cluster of local processes, for `virtuallog up`, tests and the lab: its files, its certificates and its supervisor. Imports config and storage."""
