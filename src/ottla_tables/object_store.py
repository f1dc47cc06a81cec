"""Access to the files of tables in object stores, with the same properties for all formats: those of pyiceberg."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

S3_VARIABLES: Final = {
    "s3.endpoint": ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"),
    "s3.region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "s3.access-key-id": ("AWS_ACCESS_KEY_ID",),
    "s3.secret-access-key": ("AWS_SECRET_ACCESS_KEY",),
    "s3.session-token": ("AWS_SESSION_TOKEN",),
}
"""The properties for S3, and the environment variables that replace them. The first is delta-rs' option as well."""
S3_CREDENTIALS: Final = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token")
"""They belong together: a session token of the environment does not fit another key."""


class ObjectStore:
    """The object stores of a writer or a query.

    Args:
        properties: such as `s3.endpoint` and `s3.access-key-id`.
        environment: has the variables of AWS.
    """

    def __init__(self, properties: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> None:
        self.properties = dict(properties)
        from_properties = properties.get(S3_CREDENTIALS[0]) or not environment.get("AWS_ACCESS_KEY_ID")
        for name, variables in S3_VARIABLES.items():
            if from_properties and name in S3_CREDENTIALS:
                continue
            values = (environment[variable] for variable in variables if environment.get(variable))
            if (value := self.properties.get(name) or next(values, None)) is not None:
                self.properties[name] = value
        self._io: Any = None

    @property
    def storage_options(self) -> dict[str, str]:
        """The properties as delta-rs expects them."""
        options = dict(self.properties)
        for name, (option, *_) in S3_VARIABLES.items():
            if name in options:
                options[option] = options.pop(name)
        if options.get("AWS_ENDPOINT_URL", "").startswith("http://"):
            options["AWS_ALLOW_HTTP"] = "true"
        return options

    def file_system(self, path: str) -> tuple[Any, str]:
        """Return the Arrow file system of a URL, and the path in it."""
        if self._io is None:
            from pyiceberg.io.pyarrow import PyArrowFileIO

            self._io = PyArrowFileIO(self.properties)
        scheme, host, key = self._io.parse_location(path, self.properties)
        return self._io.fs_by_scheme(scheme, host), key
