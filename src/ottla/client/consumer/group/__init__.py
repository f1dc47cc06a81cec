"""Membership of a consumer group, classic and KIP-848."""
