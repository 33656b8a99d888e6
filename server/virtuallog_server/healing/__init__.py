"""What a node does by itself when others fail: notices it, decides what follows, does it."""
