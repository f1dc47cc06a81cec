"""Pages that list and change the SCRAM credentials of users."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from ottla.client.admin.security.scram import (
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from ottla_console.cluster.clients import CHANGE_MS, READ_MS
from ottla_console.web.page import Page

MECHANISMS: Final = {
    kind.name.replace("_", "-"): kind for kind in (ScramMechanism.SCRAM_SHA_512, ScramMechanism.SCRAM_SHA_256)
}
MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384


async def listing(page: Page) -> Response:
    """Return the page that lists users with SCRAM credentials."""
    described = await page.admin.describe_user_scram_credentials(None, READ_MS)
    return page.render("users.html", users=sorted(described.items()), mechanisms=MECHANISMS)


async def upsert(page: Page) -> Response:
    """Create or replace a credential. The password is neither sent to the brokers nor logged."""
    name, mechanism = page.text("name"), page.choice("mechanism", MECHANISMS)
    iterations = page.integer("iterations", MIN_ITERATIONS, MAX_ITERATIONS, 8_192)
    password = page.text("password", strip=False)
    with page.audited("set-scram-credential", f"user:{name} {mechanism.name}"):
        await page.admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(name, mechanism, password, iterations)], CHANGE_MS
        )
    return page.done("/users", f"{name} has a new password.")


async def delete(page: Page) -> Response:
    """Delete a credential of a user."""
    name, mechanism = page.text("name"), page.choice("mechanism", MECHANISMS)
    with page.audited("delete-scram-credential", f"user:{name} {mechanism.name}"):
        await page.admin.alter_user_scram_credentials([UserScramCredentialDeletion(name, mechanism)], CHANGE_MS)
    return page.done("/users", f"The credential of {name} was deleted.")
