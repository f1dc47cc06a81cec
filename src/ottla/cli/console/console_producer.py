"""Send each line of standard input as a record, as kafka-console-producer.sh does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import BinaryIO, NamedTuple

from ottla.cli.framework.connection import add_connection, client_options, escaped, flag
from ottla.client.producer.producer import KafkaProducer
from ottla.config import properties
from ottla.errors import ConfigurationError, KafkaError

PROMPT = ">"
SHOWN_ERRORS = 10
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `ottla console-producer`."""
    add_connection(parser, "--broker-list")
    parser.add_argument("--topic", required=True, help="where the records go")
    parser.add_argument(
        "--property",
        "--reader-property",
        action="append",
        default=[],
        metavar="name=value",
        help="how lines are read: parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, "
        "headers.key.separator, null.marker, ignore.error",
    )
    parser.add_argument(
        "--producer-property",
        "--command-property",
        action="append",
        default=[],
        metavar="name=value",
        help="a producer option; repeatable",
    )
    parser.add_argument("--producer.config", dest="command_config", metavar="FILE", help="as --command-config")
    parser.add_argument(
        "--compression-codec", nargs="?", const="gzip", choices=CODECS, help="compress; without a name: gzip"
    )
    parser.add_argument("--request-required-acks", metavar="ACKS", help="0, 1 or all")
    parser.add_argument("--batch-size", type=int, metavar="BYTES", help="batch.size")
    parser.add_argument("--timeout", type=int, metavar="MS", help="linger.ms")
    parser.add_argument("--sync", action="store_true", help="wait for each record before the next")


class Lines(NamedTuple):
    """How a line becomes key, value and headers."""

    parse_key: bool = False
    key_separator: bytes = b"\t"
    parse_headers: bool = False
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    header_key_separator: bytes = b":"
    null_marker: bytes | None = None
    ignore_error: bool = False

    @classmethod
    def of(cls, given: dict[str, str]) -> Lines:
        """From the `--property` values."""
        return cls(
            flag(given.get("parse.key")),
            escaped(given.get("key.separator", "\t")),
            flag(given.get("parse.headers")),
            escaped(given.get("headers.delimiter", "\t")),
            escaped(given.get("headers.separator", ",")),
            escaped(given.get("headers.key.separator", ":")),
            given["null.marker"].encode() if "null.marker" in given else None,
            flag(given.get("ignore.error")),
        )

    def parse(self, line: bytes, number: int) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
        """Key, value and headers of a line; ConfigurationError where a separator is missing."""
        headers: list[tuple[str, bytes | None]] = []
        if self.parse_headers:
            text, line = self._split(line, self.headers_delimiter, "headers", number)
            for pair in (text or b"").split(self.headers_separator) if text else []:
                name, value = self._split(pair, self.header_key_separator, "header key", number)
                headers.append(((name or b"").decode(), self._null(value)))
        key: bytes | None = None
        if self.parse_key:
            key, line = self._split(line, self.key_separator, "key", number)
        return self._null(key), self._null(line), headers

    def _split(self, line: bytes, separator: bytes, what: str, number: int) -> tuple[bytes | None, bytes]:
        found, there, rest = line.partition(separator)
        if there:
            return found, rest
        if self.ignore_error:
            return None, line
        raise ConfigurationError(
            f"No {what} separator found on line number {number}: '{line.decode(errors='replace')}'"
        )

    def _null(self, data: bytes | None) -> bytes | None:
        return None if data == self.null_marker and self.null_marker is not None else data


def run(args: argparse.Namespace) -> int:
    """Send until the input ends; 1 where a record was refused."""
    lines = Lines.of(dict(properties.override(text) for text in args.property))
    errors: list[BaseException] = []
    with KafkaProducer(_options(args)) as producer:
        try:
            _send_all(producer, args, lines, sys.stdin.buffer, errors)
        except ConfigurationError as error:
            errors.append(error)
        producer.flush()
    for failure in errors[:SHOWN_ERRORS]:
        print(f"ERROR Error when sending message to topic {args.topic}: {failure}", file=sys.stderr)
    return 1 if errors else 0


def _send_all(
    producer: KafkaProducer, args: argparse.Namespace, lines: Lines, source: BinaryIO, errors: list[BaseException]
) -> None:
    interactive = sys.stdin.isatty()
    for number, raw in enumerate(_prompted(source, interactive), start=1):
        key, value, headers = lines.parse(raw.rstrip(b"\n").rstrip(b"\r"), number)
        try:
            future = producer.send(args.topic, value, key, headers)
            future.add_errback(errors.append)
            if args.sync:
                future.get()
        except KafkaError as error:
            if not args.sync:
                errors.append(error)
            if interactive:
                print(f"ERROR {error}", file=sys.stderr)


def _prompted(source: BinaryIO, interactive: bool) -> Iterable[bytes]:
    if not interactive:
        return source

    def ask() -> bytes:
        print(PROMPT, end="", flush=True)
        return source.readline()

    return iter(ask, b"")


def _options(args: argparse.Namespace) -> dict[str, object]:
    options = {"linger.ms": 5, **client_options(args, args.producer_property)}
    for name, value in (
        ("compression.type", args.compression_codec),
        ("acks", args.request_required_acks),
        ("batch.size", args.batch_size),
        ("linger.ms", args.timeout),
    ):
        if value is not None:
            options[name] = value
    if str(options.get("acks", "all")) not in ("all", "-1"):
        options.setdefault("enable.idempotence", False)
    return options
