"""The work of the commands on a cluster: `up`, `serve`, `status`, `node`, `metastore`, `database`, `certificates`, `explain`. Imports the common parts."""
