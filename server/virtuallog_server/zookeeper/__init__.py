"""ZooKeeper's service in front of the database, for ZooKeeper's own clients. Imports config."""
