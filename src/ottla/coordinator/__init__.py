"""Groups and offsets: pure decisions, and the one runtime that appends, replays and then replies."""
