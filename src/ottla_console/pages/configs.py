"""The configs of a resource: listing and changing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.aio import ConfigResource
from ottla.client.admin.configs import ConfigEntry, ConfigSource
from ottla_console.security.masking import MASK, is_secret
from ottla_console.web.page import BadInputError, Page

NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


class ConfigRow(NamedTuple):
    """A config in a list. Secret values are masked."""

    name: str
    value: str | None
    source: str
    is_set: bool
    """Whether the value is set for the resource."""
    is_default: bool
    """Whether the value is set nowhere."""
    is_read_only: bool
    documentation: str


async def config_rows(page: Page, resource: ConfigResource, timeout_ms: float) -> list[ConfigRow]:
    """Return the configs of a resource: first those that are set for it, last the defaults."""
    described = await page.admin.describe_configs([resource], timeout_ms, include_documentation=True)
    entries: Iterable[ConfigEntry] = next(iter(described.values())).values()
    return sorted((_row(entry) for entry in entries), key=lambda row: (not row.is_set, row.is_default, row.name))


async def alter(page: Page, resource: ConfigResource) -> str:
    """Set or remove the config of a submitted form, and return a message for the user. Raises BadInputError and errors
    of the admin client.
    """
    name = page.text("name")
    if not NAME.fullmatch(name):
        raise BadInputError(f"name: {name[:40]!r} is not a valid config name")
    removes = page.text("operation", "set") == "remove"
    value = None if removes else page.text("value", "")
    await page.admin.alter_configs({resource: {name: value}})
    shown = MASK if is_secret(name) else value
    return f"{name} was removed; its default applies." if removes else f"{name} is {shown!r} now."


def _row(entry: ConfigEntry) -> ConfigRow:
    try:
        source = ConfigSource(entry.source).name.lower().replace("_", " ").removesuffix(" config")
    except ValueError:
        source = f"source {entry.source}"
    hidden = entry.is_sensitive or (is_secret(entry.name) and entry.value not in (None, ""))
    value = MASK if hidden else entry.value
    is_default = entry.source == ConfigSource.DEFAULT_CONFIG
    return ConfigRow(
        entry.name, value, source, entry.is_modified, is_default, entry.read_only, entry.documentation or ""
    )
