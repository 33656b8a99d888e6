"""Test kit for authors of loglets and MetaStores: conformance suites, the model of a log, checkers, simulated ports."""
