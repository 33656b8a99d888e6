"""Commands on a cluster: `up`, `serve`, `status`, `node`, `metastore`, `database`, `certificates`, `explain`. Imports the common parts and what each command runs."""
