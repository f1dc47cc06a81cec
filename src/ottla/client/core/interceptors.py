"""Code of users between a client and its program: made once, told the options, and never able to break a call."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

log = logging.getLogger("ottla.client")


class Interceptors:
    """The chain of one client. What one of them raises is logged and goes no further."""

    def __init__(self, interceptors: Sequence[Any], configs: Mapping[str, Any]) -> None:
        self.chain = [made() if isinstance(made, type) else made for made in interceptors]
        for interceptor in self.chain:
            configure = getattr(interceptor, "configure", None)
            if configure is not None:
                configure(configs)

    def __bool__(self) -> bool:
        return bool(self.chain)

    def call(self, interceptor: Any, method: str, *args: Any) -> Any:
        """Call a method that the interceptor may have; None where it has not, or fails."""
        function = getattr(interceptor, method, None)
        if function is None:
            return None
        try:
            return function(*args)
        except Exception:  # a user's code must never break a client
            log.exception("interceptor %s.%s has failed", type(interceptor).__name__, method)
            return None

    def change(self, method: str, value: Any) -> Any:
        """A value as the chain leaves it; one that fails, or returns None, leaves it as it was."""
        for interceptor in self.chain:
            changed = self.call(interceptor, method, value)
            value = value if changed is None else changed
        return value

    def notify(self, method: str, *args: Any) -> None:
        """Tell all of something."""
        for interceptor in self.chain:
            self.call(interceptor, method, *args)

    def close(self) -> None:
        """Tell all of the end."""
        self.notify("close")


def close_all(*plugins: Any) -> None:
    """End what users have given, where it can be ended; what that raises must not keep a client from ending."""
    for plugin in plugins:
        close = getattr(plugin, "close", None)
        if close is None:
            continue
        try:
            close()
        except Exception:  # a user's code
            log.exception("%s could not be closed", type(plugin).__name__)
