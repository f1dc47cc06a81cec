"""Producer, consumer and admin client: an asyncio core, and the blocking face over it."""
