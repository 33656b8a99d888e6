"""The database for asyncio: each class does and raises the same as the trio class without `Asyncio` in its name."""
