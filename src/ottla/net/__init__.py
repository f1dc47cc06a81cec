"""Sockets: the broker's listener and the client's channel. Nothing else opens one."""
