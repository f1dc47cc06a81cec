"""User code between a client and its application. It is created once, gets the configs, and cannot break a call."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

log = logging.getLogger("ottla.client")


class Interceptors:
    """The interceptors of a client. Their errors are logged and ignored."""

    def __init__(self, interceptors: Sequence[Any], configs: Mapping[str, Any]) -> None:
        self.chain = [made() if isinstance(made, type) else made for made in interceptors]
        for interceptor in self.chain:
            configure = getattr(interceptor, "configure", None)
            if configure is not None:
                configure(configs)

    def __bool__(self) -> bool:
        return bool(self.chain)

    def call(self, interceptor: Any, method: str, *args: Any) -> Any:
        """Call a method if the interceptor has it, and return None if not, or after an error."""
        function = getattr(interceptor, method, None)
        if function is None:
            return None
        try:
            return function(*args)
        except Exception:  # user code must never break a client
            log.exception("Interceptor %s.%s raised an exception; it is ignored", type(interceptor).__name__, method)
            return None

    def change(self, method: str, value: Any) -> Any:
        """Pass a value through all interceptors; one that fails or returns None does not change it."""
        for interceptor in self.chain:
            changed = self.call(interceptor, method, value)
            value = value if changed is None else changed
        return value

    def notify(self, method: str, *args: Any) -> None:
        """Call a method of all interceptors."""
        for interceptor in self.chain:
            self.call(interceptor, method, *args)

    def close(self) -> None:
        """Close all interceptors."""
        self.notify("close")


def close_all(*plugins: Any) -> None:
    """Close plugins that can be closed; their errors must not keep a client from closing."""
    for plugin in plugins:
        close = getattr(plugin, "close", None)
        if close is None:
            continue
        try:
            close()
        except Exception:  # user code
            log.exception("Could not close %s", type(plugin).__name__)
