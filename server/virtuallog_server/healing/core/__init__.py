"""The decisions of failure-driven reconfiguration, pure: failure detector, policy, backoff, under-replication. Imports only `virtuallog`."""
