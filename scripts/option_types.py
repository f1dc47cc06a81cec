"""Keyword options of the clients as TypedDicts, made from the options' declarations.

    python -m scripts.option_types

Type checkers and editors then know every keyword of `KafkaProducer(…)`, its type and its meaning. The modules in
`src/ottla/client/options/` are written by this script; a test fails if they are out of date.
"""

from __future__ import annotations

import re
import sys
import textwrap
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any, Final, NamedTuple

from ottla.config.admin import AdminConfig
from ottla.config.client import ClientConfig
from ottla.config.consumer import ConsumerConfig
from ottla.config.options import Config, Option
from ottla.config.producer import ProducerConfig
from ottla.config.share_consumer import ShareConsumerConfig

FOLDER: Final = Path(__file__).parent.parent / "src" / "ottla" / "client" / "options"
WIDTH: Final = 120


class Subject(NamedTuple):
    """A class of options: its name, the declarations, and the module of its base class."""

    name: str
    config: type[Config]
    base: str
    doc: str


SUBJECTS: Final[Mapping[str, Subject]] = {
    "client": Subject("ClientOptions", ClientConfig, "", "Keyword options that all clients have."),
    "producer": Subject("ProducerOptions", ProducerConfig, "client", "Keyword options of producers."),
    "consumer": Subject("ConsumerOptions", ConsumerConfig, "client", "Keyword options of consumers."),
    "share_consumer": Subject(
        "ShareConsumerOptions", ShareConsumerConfig, "consumer", "Keyword options of share consumers."
    ),
    "admin": Subject("AdminOptions", AdminConfig, "client", "Keyword options of admin clients."),
}
"""By module."""

ADDRESSES: Final = "str | Sequence[str]"
PARSED: Final[Mapping[Any, str]] = {
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    tuple[str, ...]: ADDRESSES,
    tuple[tuple[str, int], ...]: ADDRESSES,
    tuple[Any, ...]: "str | Sequence[Any]",
    Any: "Any",
}
"""The type that a user gives for a value of the parsed type."""
EXCEPTIONS: Final = {
    "acks": 'int | Literal["all"]',
    "compression_type": "str | None",
    "sasl_jaas_config": "str | None",
    "client_id": "str | None",
    "receive_buffer_bytes": "int | None",
    "send_buffer_bytes": "int | None",
    "metric_reporters": "str | Sequence[Any]",
}
"""Options whose parser accepts more, or does not say what it returns."""

HEAD: Final = '''"""{doc} Written by `python -m scripts.option_types`."""

from __future__ import annotations

{imports}


class {name}({base}, total=False):
    """{doc}"""

'''


def accepted(option: Option[Any]) -> str:
    """Return the type of an option's values in Python."""
    if option.attribute in EXCEPTIONS:
        return EXCEPTIONS[option.attribute]
    parse, optional = option.parse, option.default is None
    while isinstance(parse, FunctionType) and parse.__qualname__.startswith("nullable"):
        parse, optional = typing.cast("FunctionType", parse.__closure__[0].cell_contents), True  # type: ignore[index]
    name = PARSED[typing.get_type_hints(parse)["return"]]
    return f"{name} | None" if optional and name != "Any" else name


def fields(subject: Subject) -> Iterator[str]:
    """Yield the lines of a class: the options that its base does not have."""
    inherited = SUBJECTS[subject.base].config.options if subject.base else {}
    for key, option in subject.config.options.items():
        if key in inherited:
            continue
        yield f"    {option.attribute}: {accepted(option)}"
        text = f'"""{option.doc}"""'.replace("\\", "\\\\")
        if len(text) + 4 <= WIDTH:
            yield f"    {text}"
        else:
            yield from (f"    {line}" for line in textwrap.wrap(text[:-3], WIDTH - 4))
            yield '    """'


def module(stem: str) -> str:
    """Return the source of a module."""
    subject = SUBJECTS[stem]
    lines = "\n".join(fields(subject))
    typed = [word for word in ("Any", "Literal") if re.search(rf"^    \w+: .*\b{word}\b", lines, re.MULTILINE)]
    names = typed if subject.base else [*typed, "TypedDict"]
    imports = "from collections.abc import Sequence\n" if "Sequence[" in lines else ""
    imports += f"from typing import {', '.join(names)}\n" if names else ""
    base = SUBJECTS[subject.base].name if subject.base else "TypedDict"
    if subject.base:
        imports += f"{chr(10) if imports else ''}from ottla.client.options.{subject.base} import {base}\n"
    return HEAD.format(doc=subject.doc, name=subject.name, base=base, imports=imports.rstrip()) + lines + "\n"


def main() -> int:
    """Write the modules that changed."""
    FOLDER.mkdir(exist_ok=True)
    for stem in SUBJECTS:
        path, source = FOLDER / f"{stem}.py", module(stem)
        if not path.exists() or path.read_text() != source:
            path.write_text(source)
            print(f"{path.name} is new")
    return 0


if __name__ == "__main__":
    sys.exit(main())
