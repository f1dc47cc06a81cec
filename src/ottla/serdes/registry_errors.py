"""The errors of schema registries."""

from __future__ import annotations

from ottla.errors import KafkaError


class SchemaRegistryError(KafkaError):
    """The schema registry rejected a request or did not respond to it, or a schema has too many references."""

    def __init__(self, message: str, error_code: int = -1) -> None:
        super().__init__(message)
        self.error_code = error_code
        """The error code, such as 40403, with which the registry rejected the request or reported an error of its own,
        or else the HTTP status; -1 for all other errors.
        """
