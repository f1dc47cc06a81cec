"""The errors of schema registries."""

from __future__ import annotations

from ottla.errors import KafkaError


class SchemaRegistryError(KafkaError):
    """The schema registry rejected a request, or could not be reached."""

    def __init__(self, message: str, error_code: int = -1) -> None:
        super().__init__(message)
        self.error_code = error_code
        """The registry's error code, such as 40403, or else the HTTP status; -1 if there was no response."""
