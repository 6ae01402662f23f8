"""The real World: asyncio, sockets, the clock, the process."""
