"""Explorer of the registrar: owners of one registry, over one store."""
