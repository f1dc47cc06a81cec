"""Parts that the clients share."""
