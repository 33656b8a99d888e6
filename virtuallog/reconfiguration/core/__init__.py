"""Pure rules of a reconfiguration: the state machine of one change of the chain, changes of the node table, and of the members of the MetaStore. Imports the contract only."""
