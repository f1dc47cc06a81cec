"""The application's interceptors in a client. Classes are instantiated once, and `configure` gets the client's configs.
Exceptions of methods that are called later are logged and ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

log = logging.getLogger("ottla.client")


class Interceptors:
    """The interceptors of a client, in the order in which they are called."""

    def __init__(self, interceptors: Sequence[Any], configs: Mapping[str, Any]) -> None:
        self.chain: list[Any] = [made() if isinstance(made, type) else made for made in interceptors]
        for interceptor in self.chain:
            configure = getattr(interceptor, "configure", None)
            if configure is not None:
                configure(configs)

    def __bool__(self) -> bool:
        return bool(self.chain)

    def call(self, interceptor: Any, method: str, *args: Any) -> Any:
        """Call a method of an interceptor. Return None if there is no such method, or after an exception."""
        function = getattr(interceptor, method, None)
        if function is None:
            return None
        try:
            return function(*args)
        except Exception:  # user code must never break a client
            log.exception("Interceptor %s.%s raised an exception, which is ignored", type(interceptor).__name__, method)
            return None

    def change(self, method: str, value: Any) -> Any:
        """Pass a value through all interceptors, and return the result. An interceptor that fails or returns None does
        not change it.
        """
        for interceptor in self.chain:
            changed = self.call(interceptor, method, value)
            value = value if changed is None else changed
        return value

    def notify(self, method: str, *args: Any) -> None:
        """Call a method of each interceptor that has it."""
        for interceptor in self.chain:
            self.call(interceptor, method, *args)

    def close(self) -> None:
        """Call close() of each interceptor that has it."""
        self.notify("close")


def close_all(*plugins: Any) -> None:
    """Call close() of each plugin that has it. Exceptions are logged, so that the client still closes."""
    for plugin in plugins:
        close = getattr(plugin, "close", None)
        if close is None:
            continue
        try:
            close()
        except Exception:  # user code
            log.exception("%s.close() raised an exception, which is ignored", type(plugin).__name__)
