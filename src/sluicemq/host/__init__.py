"""The real World: asyncio (uvloop when installed), the machine's clock, dice and memory."""
