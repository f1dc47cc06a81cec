"""Fetching records."""
