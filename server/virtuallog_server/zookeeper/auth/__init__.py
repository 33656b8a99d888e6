"""Authentication of ZooKeeper's clients: schemes, SASL DIGEST-MD5, TLS and its port. Imports only the database's identities and `virtuallog.rpc`."""
