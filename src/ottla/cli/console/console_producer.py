"""Send each line of standard input as a record, as kafka-console-producer.sh does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from typing import BinaryIO, NamedTuple, Protocol

from ottla.cli.framework.command import Command
from ottla.cli.framework.connection import client_options, connection
from ottla.cli.framework.options import Flag, Option, Repeatable, boolean, unescape
from ottla.client.producer.producer import KafkaProducer
from ottla.config import properties
from ottla.config.options import loaded
from ottla.errors import ConfigurationError, KafkaError

PROMPT = ">"
MAX_ERRORS = 10
DEFAULT_READER = "LineMessageReader"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Lines(NamedTuple):
    """The rules by which a line is split into headers, key and value. `null_marker` is the text that stands for null;
    None if no text does.
    """

    parse_key: bool = False
    key_separator: bytes = b"\t"
    parse_headers: bool = False
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    header_key_separator: bytes = b":"
    null_marker: bytes | None = None
    ignore_error: bool = False

    @classmethod
    def from_properties(cls, values: dict[str, str]) -> Lines:
        """Create the rules from properties such as `parse.key`; the defaults are those of Kafka's LineMessageReader."""
        return cls(
            boolean(values.get("parse.key")),
            _separator(values, "key.separator", "\t"),
            boolean(values.get("parse.headers")),
            _separator(values, "headers.delimiter", "\t"),
            _separator(values, "headers.separator", ","),
            _separator(values, "headers.key.separator", ":"),
            values["null.marker"].encode() if "null.marker" in values else None,
            boolean(values.get("ignore.error")),
        )

    def parse(self, line: bytes, number: int) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
        """Return the key, the value and the headers of line `number`. Raises ConfigurationError if the name of a header
        is not UTF-8 or is `null_marker`, or if a separator is missing and `ignore_error` is not set.
        """
        headers: list[tuple[str, bytes | None]] = []
        if self.parse_headers:
            text, line = self._split(line, self.headers_delimiter, "headers", number)
            for pair in text.split(self.headers_separator) if text and self._null(text) else []:
                name, value = self._split(pair, self.header_key_separator, "header key", number)
                if name is not None and self._null(name) is None:
                    raise ConfigurationError(f"A header on line number {number} has the null marker as its name")
                try:
                    headers.append((pair.decode(), None) if name is None else (name.decode(), self._null(value)))
                except UnicodeDecodeError:
                    raise ConfigurationError(f"The name of a header on line number {number} is not UTF-8") from None
        key: bytes | None = None
        if self.parse_key:
            key, line = self._split(line, self.key_separator, "key", number)
        return self._null(key), self._null(line), headers

    def _split(self, line: bytes, separator: bytes, name: str, number: int) -> tuple[bytes | None, bytes]:
        first, separated, rest = line.partition(separator)
        if separated:
            return first, rest
        if self.ignore_error:
            return None, line
        raise ConfigurationError(
            f"No {name} separator found on line number {number}: '{line.decode(errors='replace')}'"
        )

    def _null(self, data: bytes | None) -> bytes | None:
        return None if data == self.null_marker and self.null_marker is not None else data


def _separator(values: dict[str, str], name: str, default: str) -> bytes:
    separator = unescape(values.get(name, default))
    if not separator:
        raise ConfigurationError(f"{name}: an empty separator is not allowed")
    return separator


class LineReader(Protocol):
    """Parses lines of standard input. A class in `--line-reader` may implement it."""

    def parse(self, line: bytes, number: int) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
        """Return the key, the value and the headers of a line. Lines are numbered from 1."""
        ...


def run(args: argparse.Namespace) -> int:
    """Send the lines of standard input until it ends, or a line cannot be parsed. Return 1 if a record or line failed,
    otherwise 0.
    """
    lines = _reader(args)
    failures = Failures(args.topic)
    with KafkaProducer(_options(args)) as producer:
        try:
            _send_all(producer, args, lines, sys.stdin.buffer, failures)
        except ConfigurationError as error:
            failures.add(error)
        producer.flush()
    if failures.count > MAX_ERRORS:
        print(f"ERROR {failures.count - MAX_ERRORS:,} more messages could not be sent", file=sys.stderr)
    return 1 if failures.count else 0


class Failures:
    """Counts errors, and prints each of the first MAX_ERRORS when it occurs, because the input may never end."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self.count = 0

    def add(self, error: BaseException) -> None:
        """Count an error, and print it if it is among the first MAX_ERRORS. May be called in the producer's I/O
        thread.
        """
        self.count += 1
        if self.count <= MAX_ERRORS:
            text = f"ERROR Error when sending message to topic {self._topic}: {error}"
            print(text, file=sys.stderr, flush=True)


def _send_all(
    producer: KafkaProducer, args: argparse.Namespace, lines: LineReader, source: BinaryIO, failures: Failures
) -> None:
    for number, raw in enumerate(_prompted(source, sys.stdin.isatty()), start=1):
        key, value, headers = lines.parse(raw.rstrip(b"\n").rstrip(b"\r"), number)
        try:
            future = producer.send(args.topic, value, key, headers)
        except KafkaError as error:
            failures.add(error)
            continue
        future.add_errback(failures.add)
        if args.sync:
            future.exception()


def _prompted(source: BinaryIO, interactive: bool) -> Iterable[bytes]:
    if not interactive:
        return source

    def prompt() -> bytes:
        print(PROMPT, end="", flush=True)
        return source.readline()

    return iter(prompt, b"")


def _reader(args: argparse.Namespace) -> LineReader:
    values = dict(properties.load(args.reader_config)) if args.reader_config else {}
    values.update(properties.override(text) for text in args.property)
    if args.line_reader is None or args.line_reader.rpartition(".")[2] == DEFAULT_READER:
        return Lines.from_properties(values)
    try:
        created: LineReader = loaded(args.line_reader)(values)
    except (ValueError, TypeError) as error:
        raise ConfigurationError(f"--line-reader: {args.line_reader} cannot be created: {error}") from None
    return created


def _options(args: argparse.Namespace) -> dict[str, object]:
    options = {"linger.ms": 5, **client_options(args, args.producer_property)}
    for name, value in (
        ("compression.type", args.compression_codec),
        ("acks", args.request_required_acks),
        ("batch.size", args.batch_size),
        ("linger.ms", args.timeout),
        ("max.block.ms", args.max_block_ms),
        ("buffer.memory", args.max_memory_bytes),
        ("request.timeout.ms", args.request_timeout_ms),
        ("retry.backoff.ms", args.retry_backoff_ms),
        ("retries", args.message_send_max_retries),
        ("metadata.max.age.ms", args.metadata_expiry_ms),
        ("send.buffer.bytes", args.socket_buffer_size),
    ):
        if value is not None:
            options[name] = value
    if str(options.get("acks", "all")) not in ("all", "-1"):
        options.setdefault("enable.idempotence", False)
    return options


COMMAND = Command(
    run=run,
    options=(
        *connection("--broker-list"),
        Option("--topic", "topic to send records to", required=True),
        Repeatable(
            "--property, --reader-property NAME=VALUE",
            "how lines are parsed: parse.key (default: false), key.separator (tab), parse.headers (false), "
            "headers.delimiter (tab), headers.separator (,), headers.key.separator (:), null.marker (none), "
            "ignore.error (false)",
        ),
        Repeatable("--producer-property, --command-property NAME=VALUE", "a producer config, such as linger.ms=20"),
        Option("--producer.config FILE", "same as --command-config (deprecated)", dest="command_config"),
        Option(
            "--compression-codec",
            "compression.type: none (the default), gzip, snappy, lz4 or zstd; gzip if the option has no value",
            nargs="?",
            const="gzip",
            choices=CODECS,
        ),
        Option(
            "--request-required-acks ACKS",
            "acknowledgements to wait for: 0 (none), 1 (the leader) or all (every in-sync replica, the default)",
        ),
        Option("--batch-size BYTES", "batch.size: maximum size of a batch in bytes (default: 16384)", int),
        Option("--timeout MS", "linger.ms: time in milliseconds that a batch waits for more records (default: 5)", int),
        Option("--reader-config FILE", "properties file with values for --property, which overrides them"),
        Option(
            "--line-reader CLASS",
            f"class that parses lines: {DEFAULT_READER}, or the dotted name of a Python class, which is created with "
            "the properties and whose parse(line, number) returns key, value and headers",
        ),
        Option(
            "--max-block-ms MS",
            "max.block.ms: maximum time in milliseconds that sending waits for metadata and memory (default: 60000)",
            int,
        ),
        Option(
            "--max-memory-bytes BYTES",
            "buffer.memory: maximum memory in bytes of records that wait to be sent (default: 33554432)",
            int,
        ),
        Option(
            "--request-timeout-ms MS",
            "request.timeout.ms: time in milliseconds to wait for a response (default: 30000)",
            int,
        ),
        Option(
            "--retry-backoff-ms MS",
            "retry.backoff.ms: initial delay in milliseconds before a request is retried (default: 100)",
            int,
        ),
        Option(
            "--message-send-max-retries N",
            "retries: maximum number of retries of a batch (default: until delivery.timeout.ms)",
            int,
        ),
        Option(
            "--metadata-expiry-ms MS",
            "metadata.max.age.ms: maximum age of metadata in milliseconds before it is refreshed (default: 300000)",
            int,
        ),
        Option(
            "--socket-buffer-size BYTES",
            "send.buffer.bytes: size in bytes of the socket's send buffer; -1: the system's default (default: 131072)",
            int,
        ),
        Flag("--sync", "wait for the result of each record before the next one is sent"),
    ),
)
