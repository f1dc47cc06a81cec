"""How options are declared, read and checked: Kafka's ConfigDef as typed Python.

A subject's options are one class, one line per option. The attribute is Kafka's name with `_` for `.`, so `linger_ms`
is `linger.ms`; nothing else names an option. An instance is frozen and complete: every option has its value.

    class ProducerConfig(Config):
        linger_ms = Option(5.0, number(at_least=0), "How long a batch waits for company, in milliseconds.")

    ProducerConfig.from_kafka({"linger.ms": "20"})
    ProducerConfig.from_keywords(linger_ms=20)
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar, overload

from ottla.errors import ConfigurationError

log = logging.getLogger("ottla.config")

T = TypeVar("T")
Parser = Callable[[Any], T]
"""Turns what a user gave (text or a value) into the option's value; ValueError says what is allowed."""


class Required:
    """The default of an option that has none."""


REQUIRED: Any = Required()


class Option(Generic[T]):
    """One option: default, parser and documentation. An instance reads it as its value."""

    __slots__ = ("attribute", "default", "doc", "key", "parse")

    def __init__(self, default: T, parse: Parser[T], doc: str) -> None:
        self.default = default
        self.parse = parse
        self.doc = doc
        self.key = ""
        self.attribute = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.attribute = name
        self.key = name.replace("_", ".")

    @overload
    def __get__(self, instance: None, owner: type) -> Option[T]: ...
    @overload
    def __get__(self, instance: Config, owner: type) -> T: ...
    def __get__(self, instance: Config | None, owner: type) -> Option[T] | T:
        if instance is None:
            return self
        value: T = instance.values[self.key]
        return value

    def __set__(self, instance: Config, value: T) -> None:
        raise AttributeError(f"{self.key}: options are frozen; make a new {type(instance).__name__} with replace()")

    def read(self, value: Any) -> T:
        """The checked value; ConfigurationError names option, value (but for a secret) and what is allowed."""
        try:
            return self.parse(value)
        except (ValueError, TypeError) as error:
            shown = "the value (not shown)" if is_secret(self.key) else repr(value)
            raise ConfigurationError(f"{self.key}: {shown} is not allowed: {error}") from None


SECRETS = ("password", "jaas", "keystore.key", "secret")
"""What is in the names of options whose values are not shown."""


def is_secret(key: str) -> bool:
    """Whether an option's value is not to be shown."""
    return any(part in key for part in SECRETS)


class Config:
    """The base of every subject's options."""

    options: ClassVar[dict[str, Option[Any]]] = {}
    """Every option of the subject, by Kafka's name, in the order of their declaration."""
    subject: ClassVar[str] = ""
    prefixes: ClassVar[tuple[str, ...]] = ()
    """Names that begin so are known without being options of their own (`listener.name.x.max.connections`)."""

    no_effect: ClassVar[Mapping[str, str]] = {}
    """Names (or, ending with a dot, their beginnings) that are taken and change nothing, and why."""

    __slots__ = ("originals", "values")

    def __init_subclass__(
        cls,
        subject: str = "",
        prefixes: tuple[str, ...] = (),
        no_effect: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init_subclass__(**kwargs)
        cls.no_effect = {**cls.no_effect, **(no_effect or {})}
        cls.prefixes = prefixes or cls.prefixes
        cls.subject = subject or cls.subject
        inherited = {key: option for base in reversed(cls.__mro__[1:-1]) for key, option in base.options.items()}  # type: ignore[attr-defined]
        cls.options = {**inherited, **{o.key: o for o in vars(cls).values() if isinstance(o, Option)}}

    def __init__(self, configs: Mapping[str, Any]) -> None:
        self.originals: dict[str, Any] = dict(configs)
        """What the user set, by Kafka's name, as it was set; unknown names included (a plug-in may want them)."""
        self.values: dict[str, Any] = {}
        for key, option in self.options.items():
            if key in configs:
                self.values[key] = option.read(configs[key])
            elif option.default is REQUIRED:
                raise ConfigurationError(f"{key} is required: {option.doc}")
            else:
                self.values[key] = option.default
        self.check()

    def check(self) -> None:
        """Look at options that depend on each other; subclasses raise ConfigurationError."""

    def __repr__(self) -> str:
        shown = {k: ("[hidden]" if is_secret(k) else v) for k, v in self.originals.items()}
        return f"{type(self).__name__}({shown})"

    @classmethod
    def from_kafka(cls, mapping: Mapping[str, Any], **more: Any) -> Self:
        """From Kafka's names. An unknown name is a logged warning, as in Kafka."""
        configs = {**mapping, **{k.replace("_", "."): v for k, v in more.items()}}
        for key in configs:
            if key not in cls.options and not key.startswith(cls.prefixes) and not cls._is_without_effect(key):
                log.warning("unknown %s option %s%s", cls.subject, key, nearest(key, cls.options))
        return cls(configs)

    @classmethod
    def from_keywords(cls, **keywords: Any) -> Self:
        """From Python's names. An unknown one is a TypeError that names the nearest known one."""
        keys = {o.attribute: key for key, o in cls.options.items()}
        for name in keywords:
            if name not in keys and not cls._is_without_effect(name.replace("_", ".")):
                raise TypeError(f"{cls.__name__}: unknown option {name!r}{nearest(name, keys)}")
        return cls({keys.get(name, name.replace("_", ".")): value for name, value in keywords.items()})

    @classmethod
    def _is_without_effect(cls, key: str) -> bool:
        """Whether an option is only taken; then the log says why."""
        why = next(
            (w for name, w in cls.no_effect.items() if key == name or (name[-1] == "." and key.startswith(name))), ""
        )
        if why:
            log.warning("%s option %s has no effect: %s", cls.subject, key, why)
        return bool(why)

    def replace(self, changes: Mapping[str, Any]) -> Self:
        """Return a copy with some configs (Kafka's names) replaced."""
        return type(self)({**self.originals, **changes})


def nearest(name: str, candidates: Iterable[str]) -> str:
    """`; did you mean X?` where a known name is close, else nothing."""
    close = difflib.get_close_matches(name, list(candidates), n=1)
    return f"; did you mean {close[0]}?" if close else ""


# Parsers. Each accepts the text of a properties file as well as the Python value.


def integer(at_least: int | None = None, at_most: int | None = None) -> Parser[int]:
    """A whole number within bounds."""

    def parse(value: Any) -> int:
        if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
            raise ValueError("expected a whole number")
        try:
            n = int(value)
        except (TypeError, ValueError):
            raise ValueError("expected a whole number") from None
        return _bounded(n, at_least, at_most)

    return parse


def number(at_least: float | None = None, at_most: float | None = None) -> Parser[float]:
    """A number within bounds."""

    def parse(value: Any) -> float:
        try:
            n = float(value)
        except (TypeError, ValueError):
            raise ValueError("expected a number") from None
        return _bounded(n, at_least, at_most)

    return parse


N = TypeVar("N", int, float)


def _bounded(n: N, at_least: N | None, at_most: N | None) -> N:
    if at_least is not None and n < at_least:
        raise ValueError(f"it must be at least {at_least}")
    if at_most is not None and n > at_most:
        raise ValueError(f"it must be at most {at_most}")
    return n


def boolean(value: Any) -> bool:
    """true or false."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError("expected true or false")
    return text == "true"


def text(value: Any) -> str:
    """Any text."""
    if not isinstance(value, str):
        raise ValueError("expected a text")
    return value.strip()


def anything(value: Any) -> Any:
    """Any value; who uses the option checks it."""
    return value


def one_of(*allowed: str, aliases: Mapping[Any, str] | None = None) -> Parser[str]:
    """One of a few words; `aliases` maps other spellings (Python values, Java class names) to them."""

    def parse(value: Any) -> str:
        if aliases and value in aliases:
            return aliases[value]
        word = str(value).strip()
        for a in allowed:
            if word.lower() == a.lower():
                return a
        raise ValueError(f"expected one of {', '.join(filter(None, allowed))}")

    return parse


def words(*allowed: str, aliases: Mapping[str, str] | None = None) -> Parser[tuple[str, ...]]:
    """A list: text with commas, or a Python sequence; each of `allowed` (or their aliases) if any are named."""

    def parse(value: Any) -> tuple[str, ...]:
        parts = value.split(",") if isinstance(value, str) else list(value)
        parsed = tuple((aliases or {}).get(p.strip(), p.strip()) for p in parts if p.strip())
        for word in parsed:
            if allowed and word not in allowed:
                raise ValueError(f"each must be one of {', '.join(allowed)}")
        return parsed

    return parse


def nullable(parse: Parser[T]) -> Parser[T | None]:
    """The same, or None."""
    return lambda value: None if value is None else parse(value)


def loaded(value: Any) -> Any:
    """A class or function, or the dotted name of one."""
    if not isinstance(value, str):
        return value
    import importlib

    module, _, name = value.strip().rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"it cannot be loaded: {error}") from None
