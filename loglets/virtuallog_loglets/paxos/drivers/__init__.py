"""The drivers of the cores, over the ports of virtuallog.

* services on a node: `replica_service`, `coordinator_service`
* the coordinator: `coordinator_requests`, `coordinator_driver`, `election_driver`
* what a replica missed: `replica_maintenance`, `catch_up`, `fill_driver`, `broadcast`
* a lost copy of a closed log: `rereplication`
* the client: `read_driver`, `tail_check_driver`
* the disk: `group_commit`, `disk_format`, `local_replica`, `store_incarnation`

Imports `paxos.core`, `messages`, `offsets`, `config` and `metrics`; never the loglet, its provider or
`paxos.standalone`.
"""
