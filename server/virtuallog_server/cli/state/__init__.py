"""The work of `state` and `registrar`: values, dumps, and the records of registries. Imports the common parts."""
