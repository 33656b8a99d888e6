"""The registrar at the size of large clusters: admissions, single operations, recoveries, takeovers, a million operations."""
