"""The routes of configs, modes and compatibility checks."""

from __future__ import annotations

from typing import Any, Final

from ottla_registry import errors
from ottla_registry.errors import RestError
from ottla_registry.metadata import DEFAULTS_AND_OVERRIDES, check_field
from ottla_registry.registry import request_schema
from ottla_registry.rest.exchange import Call
from ottla_registry.schemas.parsed import Compatibility
from ottla_registry.subjects import qualified

UNSUPPORTED: Final = ("aliasForDeks", "compatibilityPolicy", "validateFields", "validateNewSchemas", "validateRules")
"""Settings of Confluent's registry that would have no effect. A request that sets one of them to a value other than
null, false or 0 is rejected.
"""
FIELDS: Final = {setting: field for field, settings in DEFAULTS_AND_OVERRIDES.items() for setting in settings}
"""The settings that are metadata or rule sets, each with the field of schemas that it is for."""


async def get_config(call: Call) -> Any:
    state, subject = call.registry.state, call.configured_subject
    if subject is None or call.flag("defaultToGlobal"):
        return state.config(subject)
    if subject not in state.configs:
        raise errors.compatibility_not_configured(subject)
    return state.configs[subject]


async def put_config(call: Call) -> Any:
    body = await call.body()
    config = await call.registry.set_config(call.configured_subject, _config(body if isinstance(body, dict) else {}))
    return {"compatibility" if name == "compatibilityLevel" else name: value for name, value in config.items()}


def _config(body: dict[str, Any]) -> dict[str, Any]:
    """Return the settings in a request; None means that a setting is removed. Raises RestError for invalid ones."""
    for name in UNSUPPORTED:
        if body.get(name) not in (None, False):
            raise errors.not_supported(name)
    checks = {"normalize": _check_flag, "alias": _check_alias, "compatibilityGroup": _check_text}
    config: dict[str, Any] = {}
    for name in (*checks, *FIELDS):
        if name in body:
            config[name] = body[name]
            if body[name] is not None and name in checks:
                checks[name](name, body[name])
    for name, field in FIELDS.items():
        try:
            check_field(name, field, config.get(name))
        except ValueError as error:
            raise errors.invalid_config(str(error)) from None
    if "compatibility" in body or not config:
        config["compatibilityLevel"] = _level(body.get("compatibility"), is_optional=bool(config))
    return config


def _level(level: Any, *, is_optional: bool) -> str | None:
    if level is None and is_optional:
        return None
    if not isinstance(level, str) or level.upper() not in Compatibility.__members__:
        raise errors.invalid_compatibility()
    return level.upper()


def _check_flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise errors.invalid_config(f"{name} must be true or false")


def _check_text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise errors.invalid_config(f"{name} must be a string")


def _check_alias(name: str, value: Any) -> None:
    _check_text(name, value)
    qualified(value)


async def delete_config(call: Call) -> Any:
    return await call.registry.set_config(call.configured_subject, None)


async def get_mode(call: Call) -> Any:
    state, subject = call.registry.state, call.configured_subject
    if subject is not None and not call.flag("defaultToGlobal") and subject not in state.modes:
        raise errors.mode_not_configured(subject)
    return {"mode": state.mode(subject)}


async def put_mode(call: Call) -> Any:
    body = await call.body()
    mode = body.get("mode") if isinstance(body, dict) else None
    if not isinstance(mode, str):
        raise errors.invalid_mode()
    return {"mode": await call.registry.set_mode(call.configured_subject, mode.upper(), force=call.flag("force"))}


async def delete_mode(call: Call) -> Any:
    return {"mode": await call.registry.set_mode(call.configured_subject, None)}


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
