"""Names of subjects, which may be in a context: `:.context:subject` is the subject `subject` of `.context`.

The default context is `.`, and its subjects have plain names. Ids of schemas are unique in a context.
"""

from __future__ import annotations

from typing import Final

from ottla_registry.errors import invalid_subject

DEFAULT_CONTEXT: Final = "."
MAX_SUBJECT: Final = 1_000


def context_of(subject: str) -> str:
    """Return the context, such as `.test`, of a qualified subject."""
    if subject.startswith(":."):
        return subject[1:].partition(":")[0]
    return DEFAULT_CONTEXT


def name_in_context(subject: str) -> str:
    """Return the name of a qualified subject without its context."""
    return subject.split(":", 2)[2] if subject.startswith(":.") else subject


def qualified(name: str) -> str:
    """Return the canonical name of a subject: without the default context. Raises RestError (42208) for invalid
    names.
    """
    if len(name) > MAX_SUBJECT or not name.isprintable() or name in ("__GLOBAL", "__EMPTY"):
        raise invalid_subject(name[:MAX_SUBJECT])
    if name.startswith(":.:"):
        return name[3:]
    if name.startswith(":.") and ":" not in name[1:]:
        raise invalid_subject(name)
    return name


def is_context(name: str) -> bool:
    """Return whether a name is that of a context, such as `:.test:`, and not that of a subject in a context."""
    return name.startswith(":.") and name.endswith(":") and name.count(":") == 2


def within(context: str, name: str) -> str:
    """Return the qualified name of a subject in a context. A name that is already qualified is unchanged."""
    return name if context == DEFAULT_CONTEXT or name.startswith(":.") else f":{context}:{name}"
