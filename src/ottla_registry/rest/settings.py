"""The routes of compatibility levels, modes and compatibility checks."""

from __future__ import annotations

from typing import Any, Final

from ottla_registry import errors
from ottla_registry.errors import RestError
from ottla_registry.registry import request_schema
from ottla_registry.rest.exchange import Call
from ottla_registry.schemas.parsed import Compatibility

UNSUPPORTED: Final = (
    "alias",
    "compatibilityGroup",
    "compatibilityPolicy",
    "defaultMetadata",
    "overrideMetadata",
    "defaultRuleSet",
    "overrideRuleSet",
    "validateFields",
    "validateNewSchemas",
    "validateRules",
)
"""Settings of Confluent's registry that would have no effect."""


async def get_config(call: Call) -> Any:
    state, subject = call.registry.state, call.optional_subject
    if subject is None or call.flag("defaultToGlobal"):
        return state.config(subject)
    if subject not in state.configs:
        raise errors.compatibility_not_configured(subject)
    return state.configs[subject]


async def put_config(call: Call) -> Any:
    body = await call.body()
    config = await call.registry.set_config(call.optional_subject, _config(body if isinstance(body, dict) else {}))
    return {"compatibility" if name == "compatibilityLevel" else name: value for name, value in config.items()}


def _config(body: dict[str, Any]) -> dict[str, Any]:
    """Return the settings in a request. Raises RestError."""
    settings = {name: value for name, value in body.items() if value is not None}
    for name in UNSUPPORTED:
        if name in settings:
            raise errors.not_supported(name)
    level, normalize = settings.get("compatibility"), settings.get("normalize")
    if normalize is not None and not isinstance(normalize, bool):
        raise errors.not_supported(f"normalize={normalize!r:.100}")
    config: dict[str, Any] = {} if normalize is None else {"normalize": normalize}
    if level is not None or not config:
        if not isinstance(level, str) or level.upper() not in Compatibility.__members__:
            raise errors.invalid_compatibility()
        config["compatibilityLevel"] = level.upper()
    return config


async def delete_config(call: Call) -> Any:
    return await call.registry.set_config(call.optional_subject, None)


async def get_mode(call: Call) -> Any:
    state, subject = call.registry.state, call.optional_subject
    if subject is not None and not call.flag("defaultToGlobal") and subject not in state.modes:
        raise errors.mode_not_configured(subject)
    return {"mode": state.mode(subject)}


async def put_mode(call: Call) -> Any:
    body = await call.body()
    mode = body.get("mode") if isinstance(body, dict) else None
    if not isinstance(mode, str):
        raise errors.invalid_mode()
    return {"mode": await call.registry.set_mode(call.optional_subject, mode.upper(), force=call.flag("force"))}


async def delete_mode(call: Call) -> Any:
    return {"mode": await call.registry.set_mode(call.optional_subject, None)}


async def check_version(call: Call) -> Any:
    return await _check(call, call.version)


async def check_versions(call: Call) -> Any:
    return await _check(call, None)


async def _check(call: Call, version: int | None) -> Any:
    request = request_schema(call.subject, await call.body())
    try:
        reasons = await call.registry.incompatibilities(request, version, normalize=call.flag("normalize"))
    except RestError as error:
        if error.code != errors.INVALID_SCHEMA or not call.flag("verbose"):
            raise
        reasons = [str(error)]
    result: dict[str, Any] = {"is_compatible": not reasons}
    if call.flag("verbose"):
        result["messages"] = reasons
    return result
