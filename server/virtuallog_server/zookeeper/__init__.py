"""ZooKeeper's wire protocol in front of the database: its own clients are the users."""
