"""Shared parts of producer, consumer and admin client."""
