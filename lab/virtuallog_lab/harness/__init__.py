"""Shared tools of benches, demo and experiments: trial clusters under load, reports and tables, CPU time, a real ZooKeeper ensemble. Imports the workload and the server."""
