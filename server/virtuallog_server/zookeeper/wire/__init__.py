"""ZooKeeper's wire protocol, pure: jute records, frames, requests and replies, and the state of one connection. Imports the authentication schemes and the database's commands; no I/O."""
