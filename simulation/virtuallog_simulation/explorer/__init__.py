"""Bounded exhaustive exploration of the product's pure cores: `virtuallog explore`. docs/internals/explorer.md."""
