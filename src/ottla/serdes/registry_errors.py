"""The errors of schema registries."""

from __future__ import annotations

from ottla.errors import KafkaError


class SchemaRegistryError(KafkaError):
    """A request to the schema registry failed, or a schema has too many references."""

    def __init__(self, message: str, error_code: int = -1) -> None:
        super().__init__(message)
        self.error_code = error_code
        """The error code in the registry's last error response, such as 40403, or the HTTP status of the
        response if it has another format; -1 if there was no such response.
        """
