"""Basic authentication, with the users and roles of the web console's file."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from starlette.requests import Request

from ottla_console.security.users import Credential, Role, User, authenticate
from ottla_registry.errors import RestError

MAX_CACHED: Final = 1_000


class Authenticator:
    """Checks the user of each request. Not thread-safe: event loop only.

    Args:
        users: credentials by user name. Without users, every client may do everything.
    """

    def __init__(self, users: Mapping[str, Credential]) -> None:
        self._users = users
        self._verified: OrderedDict[bytes, User] = OrderedDict()
        """Users by the digest of their Authorization header, because the hash of a password takes about 50 ms."""

    async def check(self, request: Request, role: Role) -> None:
        """Raise RestError if a request's user cannot be authenticated (40101), or has a role below `role` (40301)."""
        if not self._users:
            return
        header = request.headers.get("Authorization", "")
        digest = hashlib.sha256(header.encode()).digest()
        user = self._verified.get(digest)
        if user is None:
            user = await self._verify(header)
            self._verified[digest] = user
            if len(self._verified) > MAX_CACHED:
                self._verified.popitem(last=False)
        if user.role < role:
            raise RestError(
                40301, f"User {user.name} is denied this operation: it requires the role {role.name.lower()}"
            )

    async def _verify(self, header: str) -> User:
        scheme, _, encoded = header.partition(" ")
        try:
            text = base64.b64decode(encoded.strip(), validate=True).decode()
        except ValueError:
            text = ""
        name, colon, password = text.partition(":")
        user = None
        if scheme.lower() == "basic" and colon:
            user = await asyncio.to_thread(authenticate, self._users, name, password)
        if user is None:
            raise RestError(40101, "Unauthorized")
        return user
