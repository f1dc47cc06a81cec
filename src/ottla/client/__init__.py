"""Producer, consumer and admin client: an asyncio core, and a synchronous API over it."""
