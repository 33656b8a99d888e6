"""The data directory of a node: its identity, the stores in it, its lock and pid file, and the import of a register after a disaster. Imports no other room of the server."""
