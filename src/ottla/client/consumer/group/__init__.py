"""Membership in consumer groups, of the classic protocol and of KIP-848."""
