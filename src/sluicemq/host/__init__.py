"""The real World: asyncio, the machine's clock, dice and memory."""
