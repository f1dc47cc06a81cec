"""Base class of the configs of the 0.8 clients. Configs are passed as a mapping, as in Java, or as keyword
arguments.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from ottla.config.options import Config, Parser, loaded, nearest, text

log: Final = logging.getLogger("ottla.legacy")

MAX_INT = 2**31 - 1
LEGAL_CLIENT_ID = re.compile(r"[a-zA-Z0-9._-]*")


def plug_in(method: str, classes: Mapping[str, type[Any]]) -> Parser[Any]:
    """Return a parser for plug-ins. It accepts a class or object that has the method named `method`, the dotted name of
    one, or a Scala class name in `classes`.
    """

    def parse(value: Any) -> Any:
        plug_in_class = classes.get(value.strip()) if isinstance(value, str) else None
        plug_in_class = loaded(value) if plug_in_class is None else plug_in_class
        if not callable(getattr(plug_in_class, method, None)):
            raise ValueError(f"expected a class with the method {method}")
        return plug_in_class

    return parse


def client_id(value: Any) -> str:
    """Return the value if it is a client id of ASCII letters and digits, '.', '_' and '-'. Raises ValueError if not."""
    client = text(value)
    if not LEGAL_CLIENT_ID.fullmatch(client):
        raise ValueError("only ASCII letters and digits, '.', '_' and '-' are allowed")
    return client


class LegacyConfig(Config):
    """Configs as a mapping with Kafka's names, or as keyword arguments with underscores. Unknown names in a mapping are
    logged as warnings, unless they have one of the class's prefixes. Unknown keyword arguments raise TypeError.
    """

    def __init__(self, props: Mapping[str, Any] | None = None, **options: Any) -> None:
        keys = {option.attribute: key for key, option in self.options.items()}
        for name in options:
            if name not in keys:
                raise TypeError(f"{type(self).__name__}: unknown option {name!r}{nearest(name, keys)}")
        settings = {**(props or {}), **{keys[name]: value for name, value in options.items()}}
        for key in settings:
            if key not in self.options and not key.startswith(self.prefixes):
                log.warning("Unknown property %s of the %s%s", key, self.subject, nearest(key, self.options))
        super().__init__(settings)

    def create(self, option: str) -> Any:
        """Return the object for an option that names a plug-in. A class is instantiated, with the configs as argument
        if its constructor takes one.
        """
        value = self.values[option]
        if not isinstance(value, type):
            return value
        return value(self.originals) if _accepts_options(value) else value()


def _accepts_options(made: type[Any]) -> bool:
    """Return whether the constructor takes a positional argument, as Scala plug-ins take their configs."""
    if made.__init__ is object.__init__:
        return False
    return any(
        p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)
        for p in inspect.signature(made).parameters.values()
    )
