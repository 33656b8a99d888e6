"""Pure parts of the state: commands on variables, and the image of a state that is kept in a log."""
