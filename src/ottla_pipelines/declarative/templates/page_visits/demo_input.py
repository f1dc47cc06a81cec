"""What `ottla pipeline run --demo` puts into the topics when they are empty."""

from ottla_pipelines.ingest.fill import fill_visits


def fill(bootstrap_servers: str) -> int:
    """Send a few thousand visits, one line in twenty broken. Returns how many."""
    return fill_visits(bootstrap_servers, seed=1, count=20_000)
