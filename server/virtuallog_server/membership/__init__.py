"""What operators ask about nodes: add, replace, drain and remove them."""
