"""Connections to a broker."""
