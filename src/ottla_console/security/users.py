"""The users of the console and of the schema registry: a file with a line `name:role:hash` for each user.

The hashes are scrypt (RFC 7914, with Python's hashlib). `ottla console --hash-password` creates them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

from ottla.errors import ConfigurationError

COST: Final = 2**14
BLOCK_SIZE: Final = 8
PARALLEL: Final = 1
SALT_BYTES: Final = 16
MAX_MEMORY: Final = 64 * 1024 * 1024
MAX_PASSWORD: Final = 1024


class Role(IntEnum):
    """A role of users. Each role includes the permissions of the lower ones.

    In the console, a viewer can only read. An editor also creates topics, changes their configs, adds partitions,
    produces records and resets offsets. An admin also deletes and purges topics, deletes groups, and changes brokers,
    ACLs, users and quotas.
    """

    VIEWER = 1
    EDITOR = 2
    ADMIN = 3


class User(NamedTuple):
    """A user of the console or of the schema registry."""

    name: str
    role: Role


class Credential(NamedTuple):
    """The role and the password hash of a user."""

    role: Role
    hashed: str


def hash_password(password: str, salt: bytes | None = None) -> str:
    """Return the hash of a password, as `scrypt$cost$block size$parallel$salt$hash`. Raises ConfigurationError if the
    password is too long to log in with.
    """
    if len(password) > MAX_PASSWORD:
        raise ConfigurationError(f"the password has {len(password):,} characters; at most {MAX_PASSWORD:,} are allowed")
    salt = os.urandom(SALT_BYTES) if salt is None else salt
    digest = _scrypt(password, salt, COST, BLOCK_SIZE, PARALLEL)
    return "$".join(("scrypt", str(COST), str(BLOCK_SIZE), str(PARALLEL), _text(salt), _text(digest)))


def verify_password(password: str, hashed: str) -> bool:
    """Return whether the password has this hash. Takes about 50 ms, so do not call it in the event loop."""
    _, cost, block_size, parallel, salt, digest = hashed.split("$")
    actual = _scrypt(password, base64.b64decode(salt), int(cost), int(block_size), int(parallel))
    return hmac.compare_digest(actual, base64.b64decode(digest))


def load_users(path: Path) -> dict[str, Credential]:
    """Return the credentials in a file by user name. Raises ConfigurationError if the file cannot be read, has no
    users, or has an invalid line, whose number is in the message.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"--users {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"--users {path}: the file is not UTF-8 ({error.reason} at byte {error.start})"
        ) from None
    users: dict[str, Credential] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            name, role, hashed = line.strip().split(":")
            verify_password("", hashed)
            users[name] = Credential(Role[role.upper()], hashed)
        except (ValueError, KeyError):
            expected = "name:viewer|editor|admin:HASH, with HASH from `ottla console --hash-password`"
            raise ConfigurationError(f"--users {path}: line {number} is not {expected}") from None
    if not users:
        raise ConfigurationError(f"--users {path}: the file has no users")
    return users


def authenticate(users: Mapping[str, Credential], name: str, password: str) -> User | None:
    """Return the user, or None if the name or password is wrong. For an unknown name, a password is verified as well,
    so that the time does not show which names exist. There must be at least one user.
    """
    credential = users.get(name)
    hashed = credential.hashed if credential is not None else next(iter(users.values())).hashed
    is_right = verify_password(password[:MAX_PASSWORD], hashed)
    return User(name, credential.role) if credential is not None and is_right else None


def _scrypt(password: str, salt: bytes, cost: int, block_size: int, parallel: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=cost, r=block_size, p=parallel, maxmem=MAX_MEMORY, dklen=32)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
