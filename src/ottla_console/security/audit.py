"""The audit log, in the logger `ottla.console.audit`: lines about changes, logins and rejected requests."""

from __future__ import annotations

import logging

from ottla_console.security.users import User

log = logging.getLogger("ottla.console.audit")


def record(user: User, action: str, resource: str, outcome: str, address: str) -> None:
    """Log an action as `user=alice role=admin address=10.0.0.7 action=delete-topic resource=topic:visits
    outcome=done`.
    """
    role = user.role.name.lower()
    log.info(
        "user=%s role=%s address=%s action=%s resource=%s outcome=%s",
        user.name, role, address, action, _in_one_line(resource), outcome,
    )  # fmt: skip


def _in_one_line(text: str) -> str:
    """Escape line breaks and other control characters of an input, so that it cannot forge lines."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
