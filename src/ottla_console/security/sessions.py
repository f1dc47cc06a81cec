"""Browser sessions: random session ids for a cookie, users by session id, CSRF tokens, messages for the next page, and
failed logins.

A CSRF token is an HMAC of the session id, so tokens take no memory. Not thread-safe: event loop only.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from typing import Any, Final, NamedTuple

from ottla_console.security.users import User

COOKIE: Final = "ottla_console"
MAX_SESSIONS: Final = 1_000
SESSION_SECONDS: Final = 12 * 3600
MAX_FAILURES: Final = 5
FAILURE_SECONDS: Final = 60.0
MAX_TRACKED: Final = 10_000


class Notice(NamedTuple):
    """A message to show on the next page."""

    text: str
    is_error: bool = False


class Sessions:
    """The sessions of one console."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._users: OrderedDict[str, tuple[User, float]] = OrderedDict()
        self._notices: OrderedDict[str, Notice] = OrderedDict()
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()

    @staticmethod
    def new_id() -> str:
        """Return a new session id."""
        return secrets.token_urlsafe(24)

    def csrf_token(self, session_id: str) -> str:
        """Return the CSRF token for the forms of a session."""
        return hmac.new(self._key, session_id.encode(), hashlib.sha256).hexdigest()

    def is_csrf_token(self, session_id: str, token: str) -> bool:
        """Return whether the CSRF token belongs to the session."""
        return hmac.compare_digest(self.csrf_token(session_id).encode(), token.encode())

    def log_in(self, user: User) -> str:
        """Log in a user in a new session, because others may know the id of the old one. Return the new id."""
        session_id = self.new_id()
        self._users[session_id] = (user, time.monotonic() + SESSION_SECONDS)
        _limit(self._users, MAX_SESSIONS)
        return session_id

    def log_out(self, session_id: str) -> None:
        """Log out the user of a session."""
        self._users.pop(session_id, None)

    def user(self, session_id: str) -> User | None:
        """Return the user of a session; None if the user is not logged in, or the session has expired."""
        user, end = self._users.get(session_id, (None, 0.0))
        if user is not None and time.monotonic() > end:
            self.log_out(session_id)
            return None
        return user

    def notify(self, session_id: str, notice: Notice) -> None:
        """Store a message for the next page of the session."""
        self._notices[session_id] = notice
        _limit(self._notices, MAX_SESSIONS)

    def take_notice(self, session_id: str) -> Notice | None:
        """Return the message for the next page, and remove it; None if there is none."""
        return self._notices.pop(session_id, None)

    def may_try(self, name: str) -> bool:
        """Return whether a login of this user is allowed. After five failures within a minute it is not, until the
        minute has passed.
        """
        count, since = self._failures.get(name, (0, 0.0))
        return count < MAX_FAILURES or time.monotonic() - since > FAILURE_SECONDS

    def record_failure(self, name: str) -> None:
        """Count a failed login of this user."""
        count, since = self._failures.get(name, (0, time.monotonic()))
        if time.monotonic() - since > FAILURE_SECONDS:
            count, since = 0, time.monotonic()
        self._failures[name] = (count + 1, since)
        _limit(self._failures, MAX_TRACKED)


def _limit(entries: OrderedDict[str, Any], limit: int) -> None:
    while len(entries) > limit:
        entries.popitem(last=False)
