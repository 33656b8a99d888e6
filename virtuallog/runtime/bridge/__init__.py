"""The way from an asyncio loop to a trio loop of another thread: `asyncio_bridge` first."""
