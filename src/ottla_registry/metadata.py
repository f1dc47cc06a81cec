"""The metadata and rule sets of schemas: checks of those in requests, and the defaults and overrides of configs.

Values of wrong types are rejected, because Confluent's registry could not read a topic that contains them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from ottla_registry.errors import invalid_rule_set

DEFAULTS_AND_OVERRIDES: Final = {
    "metadata": ("defaultMetadata", "overrideMetadata"),
    "ruleSet": ("defaultRuleSet", "overrideRuleSet"),
}
"""For a field of a schema, the names of two settings of a config: the first has defaults of the field's parts, the
second has values that override those of the schema and the defaults.
"""
RULE_KINDS: Final = ("TRANSFORM", "CONDITION")
MIGRATION_MODES: Final = ("UPGRADE", "DOWNGRADE", "UPDOWN")
DOMAIN_MODES: Final = ("WRITE", "READ", "WRITEREAD")
RULE_MODES: Final = {"migrationRules": MIGRATION_MODES, "domainRules": DOMAIN_MODES, "encodingRules": DOMAIN_MODES}
"""The modes of the rules in each list of a rule set."""
ENVIRONMENTS: Final = ("ALL", "CLIENT", "GATEWAY", "SERVER", "NONE")
RULE_NAME: Final = re.compile(r"[^\W\d][\w-]{0,63}")
BOTH_WAYS: Final = ("UPDOWN", "WRITEREAD")


def check_metadata(document: Mapping[str, Any]) -> None:
    """Raise ValueError if `metadata`, `ruleSet` or `schemaTags` of a request are malformed, and RestError (42210) if
    a rule is invalid.
    """
    for field in PARTS:
        check_field(field, field, document.get(field))
    if document.get("schemaTags") is not None and not _are_objects(document["schemaTags"]):
        raise ValueError("schemaTags must be a list of objects")


def check_field(name: str, field: str, value: Any) -> None:
    """Check a `field` (metadata or ruleSet) that the request calls `name`. Raises as `check_metadata` does."""
    if value is None:
        return
    parts = PARTS[field]
    if not isinstance(value, dict) or value.keys() - parts.keys():
        raise ValueError(f"{name} must be an object with {', '.join(parts)}")
    for part, check in parts.items():
        if value.get(part) is not None and not check(value[part]):
            raise ValueError(f"{name}.{part} is malformed")
    if field == "ruleSet":
        _check_rules(value)


def _check_rules(rules: Mapping[str, Any]) -> None:
    for part, modes in RULE_MODES.items():
        names: set[str] = set()
        for rule in rules.get(part) or ():
            name = rule.get("name") or ""
            reason = "another rule has this name" if name in names else _invalid(rule, modes)
            if reason:
                raise invalid_rule_set(name, reason)
            names.add(name)


def _invalid(rule: Mapping[str, Any], modes: Iterable[str]) -> str:
    """Return why a rule is invalid; an empty string if it is valid."""
    if not rule.get("name") or RULE_NAME.fullmatch(rule["name"]) is None:
        return "its name must have up to 64 letters, digits, _ and -, with a letter or _ at the beginning"
    if rule.get("type") is None:
        return "it has no type"
    mode = rule.get("mode")
    if mode is not None and mode not in modes:
        return f"its mode must be {', '.join(modes)}"
    if mode not in (None, *BOTH_WAYS) and any("," in (rule.get(name) or "") for name in ("onSuccess", "onFailure")):
        return "only WRITEREAD and UPDOWN have several actions"
    return ""


def completed(field: str, value: Any, config: Mapping[str, Any]) -> Any:
    """Return the metadata or the rule set of a new schema, with the defaults and the overrides of a config. A `value`
    of None, and a result of None, mean that there is none.
    """
    default, override = (config.get(name) for name in DEFAULTS_AND_OVERRIDES[field])
    return _merged(_merged(default, value), override)


def _merged(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if old is None or new is None:
        return old if new is None else new
    merged = {name: _merged_part(old.get(name), new.get(name)) for name in {**old, **new}}
    return {name: part for name, part in merged.items() if part is not None}


def _merged_part(old: Any, new: Any) -> Any:
    """Merge a part: properties and tags by name, rules by their name, and sensitive names as a set."""
    if not old or not new or isinstance(new, str):
        return new or old
    if isinstance(new, dict):
        return {**old, **new}
    if all(isinstance(item, str) for item in (*old, *new)):
        return sorted({*old, *new})
    names = {rule.get("name") for rule in new}
    return [*(rule for rule in old if rule.get("name") not in names), *new]


def has_rules_of_type(rule_set: Mapping[str, Any], rule_type: str) -> bool:
    """Return whether a rule set has a rule of a type."""
    return any(rule.get("type") == rule_type for rule in _rules(rule_set))


def _rules(rule_set: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for part in RULE_MODES:
        yield from rule_set.get(part) or ()


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _are_properties(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _are_tags(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_are_texts, value.values()))


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


RULE_PARTS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "name": _is_text,
    "doc": _is_text,
    "kind": lambda value: value in RULE_KINDS,
    "mode": lambda value: value in (*MIGRATION_MODES, *DOMAIN_MODES),
    "type": _is_text,
    "tags": _are_texts,
    "params": _are_properties,
    "expr": _is_text,
    "onSuccess": _is_text,
    "onFailure": _is_text,
    "disabled": lambda value: isinstance(value, bool),
}


def _are_rules(value: Any) -> bool:
    return _are_objects(value) and all(map(_is_rule, value))


def _is_rule(rule: Mapping[str, Any]) -> bool:
    return not rule.keys() - RULE_PARTS.keys() and all(
        value is None or RULE_PARTS[name](value) for name, value in rule.items()
    )


PARTS: Final[Mapping[str, Mapping[str, Callable[[Any], bool]]]] = {
    "metadata": {"tags": _are_tags, "properties": _are_properties, "sensitive": _are_texts},
    "ruleSet": {
        **dict.fromkeys(RULE_MODES, _are_rules),
        "enableAt": lambda value: value in ENVIRONMENTS,
    },
}
