"""Declaration, parsing and validation of options: Kafka's ConfigDef as typed Python.

A subject's options are one class, with an attribute per option. The attribute is Kafka's name with `_` for `.`, so
`linger_ms` is `linger.ms`, unless the option has another `key`. An instance has a value for every option; setting an
option raises AttributeError.

    class ProducerConfig(Config):
        linger_ms = Option(5.0, number(at_least=0), "Maximum time in milliseconds that a batch waits.")

    ProducerConfig.from_kafka({"linger.ms": "20"})
    ProducerConfig.from_keywords(linger_ms=20)
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Generic, Self, TypeVar, overload

from ottla.errors import ConfigurationError

log = logging.getLogger("ottla.config")

T = TypeVar("T")
Parser = Callable[[Any], T]
"""Parses a user's text or value into the option's value; raises ValueError or TypeError if it is not allowed."""


class Required:
    """The type of `REQUIRED`, the default of options that the user must set."""


REQUIRED: Any = Required()


class Option(Generic[T]):
    """One option: default, parser and documentation. The attribute of a `Config` instance is the option's value."""

    __slots__ = ("attribute", "default", "doc", "key", "parse")

    def __init__(self, default: T, parse: Parser[T], doc: str, *, key: str = "") -> None:
        self.default: T = default
        self.parse: Parser[T] = parse
        self.doc: str = doc
        self.key: str = key
        """Kafka's name: that of the attribute with dots for underscores, unless another one was passed."""
        self.attribute: str = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.attribute = name
        self.key = self.key or name.replace("_", ".")

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
        """Return the parsed value.

        Raises a ConfigurationError that names the option, its value (unless it is secret) and the reason.
        """
        try:
            return self.parse(value)
        except (ValueError, TypeError) as error:
            shown = "the value (not shown)" if is_secret(self.key) else repr(value)
            raise ConfigurationError(f"{self.key}: {shown} is not allowed: {error}") from None


SECRETS = (
    "password", "jaas", "keystore.key", "secret", "master.key",
    # of object stores (`rsm.config.*`)
    "access_key", "account_key", "master_key", "encryption_key", "sas_key", "_token", "connection_string",
)  # fmt: skip
"""Parts of the names of options whose values are never shown."""


def is_secret(key: str) -> bool:
    """Return whether an option's value must not be shown."""
    return any(part in key for part in SECRETS)


class Config:
    """The base class of the options of one subject, such as a producer."""

    options: ClassVar[dict[str, Option[Any]]] = {}
    """The options of the subject by Kafka's name."""
    subject: ClassVar[str] = ""
    prefixes: ClassVar[tuple[str, ...]] = ()
    """Prefixes of names that are accepted although they are not options (`listener.name.x.max.connections`)."""

    no_effect: ClassVar[Mapping[str, str]] = {}
    """Names (or prefixes, ending with a dot) of accepted options without effect, and the reasons."""

    other_names: ClassVar[Mapping[str, str]] = {}
    """Options of other clients, and the equivalent options here, which warnings and errors suggest."""

    __slots__ = ("originals", "values")

    def __init_subclass__(
        cls,
        subject: str = "",
        prefixes: tuple[str, ...] = (),
        no_effect: Mapping[str, str] | None = None,
        other_names: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init_subclass__(**kwargs)
        cls.no_effect = {**cls.no_effect, **(no_effect or {})}
        cls.other_names = {**cls.other_names, **(other_names or {})}
        cls.prefixes = prefixes or cls.prefixes
        cls.subject = subject or cls.subject
        inherited = {key: option for base in reversed(cls.__mro__[1:-1]) for key, option in base.options.items()}  # type: ignore[attr-defined]
        cls.options = {**inherited, **{o.key: o for o in vars(cls).values() if isinstance(o, Option)}}

    def __init__(self, configs: Mapping[str, Any]) -> None:
        self.originals: dict[str, Any] = dict(configs)
        """The options as the user set them, by Kafka's names; unknown ones included, which plug-ins may read."""
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
        """Check options that depend on each other.

        Subclasses raise ConfigurationError; the base class checks nothing.
        """

    def __repr__(self) -> str:
        shown = {k: ("[hidden]" if is_secret(k) else v) for k, v in self.originals.items()}
        return f"{type(self).__name__}({shown})"

    def differences(self) -> list[str]:
        """Return `name=value` of the options that the user set, except those that have their default value.

        They are sorted, and the values of secrets are hidden.
        """
        return [
            f"{key}={'[hidden]' if is_secret(key) else self.originals[key]}"
            for key in sorted(self.originals)
            if key not in self.options or self.values[key] != self.options[key].default
        ]

    @classmethod
    def from_kafka(cls, mapping: Mapping[str, Any], **more: Any) -> Self:
        """Build the config from a mapping with Kafka's names; `more` has names with underscores instead of dots.
        Unknown names are logged as warnings.
        """
        configs = {**mapping, **{k.replace("_", "."): v for k, v in more.items()}}
        cls.check_names(configs)
        return cls(configs)

    @classmethod
    def check_names(cls, keys: Iterable[str]) -> None:
        """Log warnings for names that are not accepted, and for options without effect, with the reasons."""
        for warning in cls.unknown(cls._with_effect(keys)):
            log.warning("%s", warning)

    @classmethod
    def unknown(cls, keys: Iterable[str]) -> list[str]:
        """Return a warning for each name that is not accepted, such as `Unknown broker config num.partition; did you
        mean num.partitions?`.
        """
        return [
            f"Unknown {cls.subject} config {key}{cls._nearest(key)}"
            for key in keys
            if key not in cls.options and not key.startswith(cls.prefixes) and not cls._why_no_effect(key)
        ]

    @classmethod
    def _nearest(cls, key: str) -> str:
        """Return `; did you mean X?` with the equivalent option, or the most similar one; "" if there is none."""
        option = cls.options.get(cls.other_names.get(key, ""))
        return f"; did you mean {option.key}?" if option is not None else nearest(key, cls.options)

    @classmethod
    def from_keywords(cls, **keywords: Any) -> Self:
        """Build the config from Python's names. An unknown name raises a TypeError, which suggests the equivalent or
        most similar option if there is one.
        """
        keys = {o.attribute: key for key, o in cls.options.items()}
        names = {name if name in keys else name.replace("_", "."): name for name in keywords}
        for key in cls._with_effect(names):
            if names[key] not in keys:
                option = cls.options.get(cls.other_names.get(key, ""))
                hint = nearest(names[key], keys) if option is None else f"; did you mean {option.attribute}?"
                raise TypeError(f"{cls.__name__}: unknown option {names[key]!r}{hint}")
        return cls({keys.get(name, name.replace("_", ".")): value for name, value in keywords.items()})

    @classmethod
    def _with_effect(cls, keys: Iterable[str]) -> list[str]:
        """Return the keys without those that are accepted without effect; log these and the reasons in one line."""
        ignored: dict[str, list[str]] = {}
        others: list[str] = []
        for key in keys:
            why = "" if key in cls.options else cls._why_no_effect(key)
            (ignored.setdefault(why, []) if why else others).append(key)
        if ignored:
            reasons = "; ".join(f"{', '.join(names)} ({why})" for why, names in ignored.items())
            log.warning("Ignoring %s configs without effect: %s", cls.subject, reasons)
        return others

    @classmethod
    def _why_no_effect(cls, key: str) -> str:
        """Return the reason why an option is accepted without effect; empty for others."""
        prefixes = (key[:end] for end in range(len(key), 0, -1) if end == len(key) or key[end - 1] == ".")
        return next((cls.no_effect[name] for name in prefixes if name in cls.no_effect), "")

    def replace(self, changes: Mapping[str, Any]) -> Self:
        """Return a copy with some configs (Kafka's names) replaced."""
        return type(self)({**self.originals, **changes})


def nearest(name: str, candidates: Iterable[str]) -> str:
    """Return `; did you mean X?` with the most similar candidate, or "" if none is similar."""
    import difflib  # importing it takes longer than parsing a broker's configs

    close = difflib.get_close_matches(name, list(candidates), n=1)
    return f"; did you mean {close[0]}?" if close else ""


# Parsers. Each accepts the text of a properties file as well as the Python value.


def integer(at_least: int | None = None, at_most: int | None = None) -> Parser[int]:
    """Return a parser of whole numbers within bounds."""

    def parse(value: Any) -> int:
        if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
            raise ValueError("expected a whole number")
        try:
            n = int(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError("expected a whole number") from None
        return _bounded(n, at_least, at_most)

    return parse


def gzip_level(value: Any) -> int:
    """Parse -1 or 1 to 9: level 0 would be no compression, which compression.type selects."""
    level = integer(-1, 9)(value)
    if level == 0:
        raise ValueError("expected -1 or 1 to 9")
    return level


def number(at_least: float | None = None, at_most: float | None = None) -> Parser[float]:
    """Return a parser of numbers within bounds."""

    def parse(value: Any) -> float:
        try:
            n = float(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError("expected a number") from None
        if n != n:  # NaN is within all bounds
            raise ValueError("expected a number")
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
    """Parse true or false."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError("expected true or false")
    return text == "true"


def text(value: Any) -> str:
    """Return a str without the whitespace around it. Raises ValueError for other types."""
    if not isinstance(value, str):
        raise ValueError("expected a text")
    return value.strip()


def anything(value: Any) -> Any:
    """Accept any value; the code that uses the option checks it."""
    return value


def one_of(*allowed: str, aliases: Mapping[Any, str] | None = None) -> Parser[str]:
    """Return a parser of one of a few words, in upper or lower case; `aliases` maps other spellings (Python values,
    Java classes) to them.
    """

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
    """Return a parser of lists (text with commas, or a sequence). `aliases` maps other spellings of items to words; if
    there are `allowed` words, other items are rejected.
    """

    def parse(value: Any) -> tuple[str, ...]:
        parts = value.split(",") if isinstance(value, str) else list(value)
        parsed = tuple((aliases or {}).get(p.strip(), p.strip()) for p in parts if p.strip())
        for word in parsed:
            if allowed and word not in allowed:
                raise ValueError(f"each must be one of {', '.join(allowed)}")
        return parsed

    return parse


def nullable(parse: Parser[T]) -> Parser[T | None]:
    """Return a parser like `parse` that also accepts None."""
    return lambda value: None if value is None else parse(value)


def loaded(value: Any) -> Any:
    """Import a class or function by its dotted name. Return a value that is not a str unchanged.

    Raises ValueError if the module or its attribute does not exist.
    """
    if not isinstance(value, str):
        return value
    import importlib

    module, _, name = value.strip().rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"it cannot be loaded: {error}") from None


# auto.offset.reset and share.auto.offset.reset: a word, or a duration (KIP-1106)

BY_DURATION: Final = "by_duration:"
DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?",
    re.I,
)
"""Durations such as P2DT3H4M5.6S, in the notation of java.time.Duration, but without signs."""
UNIT_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}


def duration_ms(value: str) -> int:
    """Return the milliseconds of a duration such as PT1H. Raises ValueError for other values, including negative
    durations.
    """
    match = DURATION.fullmatch(value.strip())
    if match is None or not any(match.groupdict().values()):
        raise ValueError("expected a duration that is not negative, such as PT1H or P2DT12H")
    return int(sum(float(number) * UNIT_MS[unit] for unit, number in match.groupdict().items() if number))


def reset_policy(*words: str, aliases: Mapping[Any, str] | None = None) -> Parser[str]:
    """Return a parser of one of the words, or `by_duration:` with a duration."""
    other = one_of(*words, f"{BY_DURATION}<duration>", aliases=aliases)

    def parse(value: Any) -> str:
        word = str(value).strip()
        if not word.lower().startswith(BY_DURATION):
            return other(value)
        duration = word[len(BY_DURATION) :].strip()
        duration_ms(duration)
        return BY_DURATION + duration

    return parse
