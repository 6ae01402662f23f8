"""The real World: asyncio (uvloop when present), the machine's clock, dice and memory."""
