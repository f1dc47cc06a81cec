"""What `ottla pipeline run --demo` puts into the topics when they are empty."""

from ottla.pipelines.ingest.fill import fill_flights


def fill(bootstrap_servers: str) -> int:
    """Send the year's first flights and their weather. Returns how many events; limit=None sends the whole year."""
    return fill_flights(bootstrap_servers, limit=20_000)
