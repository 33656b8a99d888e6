"""Pure parts of the registrar: tables of records, the overlay of an operation, and the state machine of batches."""
