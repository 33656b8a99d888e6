"""The configuration of a node: the file `node.toml`, its sections, and what options of `up` and `serve` add to it. Imports the healing policy's settings; no other room of the server."""
