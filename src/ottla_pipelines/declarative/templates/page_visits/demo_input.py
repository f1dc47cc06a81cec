"""Sample data that `ottla pipeline run --demo` writes to the topic `visits` if it is empty."""

from ottla_pipelines.ingest.fill import fill_visits


def fill(bootstrap_servers: str) -> int:
    """Send 20,000 visits, of which about five percent are malformed, if the topic is empty. Return the number of
    records sent.
    """
    return fill_visits(bootstrap_servers, seed=1, count=20_000)
