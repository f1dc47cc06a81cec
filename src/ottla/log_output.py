"""The log of a server process: text or JSON lines, to stderr or a file, written by a thread.

The event loop only adds records to a queue, because a stopped terminal, a full pipe or a slow disk would otherwise
block all clients. The queue is bounded: if it is full, records are dropped and counted, and the count is logged. (The
standard library's `QueueHandler` has an unbounded queue, or prints a traceback for each record that does not fit.)
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple

MAX_QUEUED: Final = 10_000
"""The maximum number of records in the queue. Further records are dropped and counted."""
CLOSE_SECONDS: Final = 5.0
"""Maximum time in seconds for which `flush` and `close` of a handler wait until the records are written."""
TEXT: Final = "%(asctime)s %(levelname)s %(message)s (%(name)s)"


class LogOptions(NamedTuple):
    """The log options of commands such as `ottla broker`."""

    level: str = "warning"
    format: str = "text"
    file: str | None = None
    file_bytes: int = 0
    """The size in bytes at which the file is rotated; 0 if it is rotated by another program such as logrotate."""
    file_count: int = 10
    """The number of rotated files to keep. Without effect if `file_bytes` is 0."""


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object in one line: time (UTC), level, logger, broker id if there is one, message, and
    the traceback of an exception as one string.
    """

    def __init__(self, broker_id: int | None) -> None:
        super().__init__()
        self._broker_id = broker_id

    def format(self, record: logging.LogRecord) -> str:
        seconds, milliseconds = int(record.created), int(record.msecs)
        line: dict[str, object] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{milliseconds:03d}Z",
            "level": record.levelname,
            "logger": record.name,
        }
        if self._broker_id is not None:
            line["broker"] = self._broker_id
        line["message"] = record.getMessage()
        if record.exc_text or record.exc_info:
            line["exception"] = record.exc_text or self.formatException(record.exc_info)  # type: ignore[arg-type]
        return json.dumps(line, ensure_ascii=False)


class BackgroundHandler(logging.Handler):
    """Writes records in a thread, which is started with the first record. Records that do not fit into the queue are
    dropped.
    """

    def __init__(self, target: logging.Handler) -> None:
        super().__init__()
        self._target = target
        self._queue: SimpleQueue[logging.LogRecord | threading.Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        if self._queue.qsize() >= MAX_QUEUED:
            self._dropped += 1
            return
        try:
            # formatted now, because arguments may change, and a traceback would keep its frames in memory
            record.msg, record.args = record.getMessage(), None
            if record.exc_info and not record.exc_text:
                record.exc_text = logging.Formatter().formatException(record.exc_info)
        except Exception:
            self.handleError(record)
            return
        record.exc_info = None
        self._queue.put(record)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ottla-log", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (record := self._queue.get()) is not None:
            if isinstance(record, threading.Event):
                record.set()
                continue
            if self._dropped:
                dropped, self._dropped = self._dropped, 0
                self._target.handle(_dropped_record(dropped))
            self._target.handle(record)

    def flush(self) -> None:
        """Wait until all records so far are written, for at most `CLOSE_SECONDS`."""
        if self._thread is not None and self._thread.is_alive():
            written = threading.Event()
            self._queue.put(written)
            written.wait(CLOSE_SECONDS)

    def close(self) -> None:
        """Write the records in the queue, for at most `CLOSE_SECONDS`, and close the target."""
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive():
            self._queue.put(None)
            thread.join(CLOSE_SECONDS)
        self._target.close()
        super().close()


def _dropped_record(dropped: int) -> logging.LogRecord:
    text = "%d log lines were dropped, because they could not be written fast enough"
    return logging.LogRecord("ottla.broker", logging.WARNING, __file__, 0, text, (dropped,), None)


def configure(options: LogOptions, broker_id: int | None = None, *, of_node: bool = False) -> None:
    """Configure the root logger with these options, and remove its earlier handlers. `of_node` means that this process
    runs one of several brokers of a node: the broker id is then at the start of each record in text format, and in the
    name of the log file.
    """
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if options.file is not None:
        handler = _file_handler(options, Path(options.file), broker_id if of_node else None)
    if options.format == "json":
        handler.setFormatter(JsonFormatter(broker_id))
    else:
        handler.setFormatter(logging.Formatter(f"[broker {broker_id}] {TEXT}" if of_node else TEXT))
    logging.basicConfig(level=options.level.upper(), handlers=[BackgroundHandler(handler)], force=True)


def close() -> None:
    """Write the records in the queue, for at most `CLOSE_SECONDS`, and remove the handler from the root logger."""
    for handler in list(logging.root.handlers):
        if isinstance(handler, BackgroundHandler):
            logging.root.removeHandler(handler)
            handler.close()


def _file_handler(options: LogOptions, path: Path, broker_id: int | None) -> logging.Handler:
    """Return the handler for the log file. With broker id 1, `broker.log` becomes `broker-1.log`."""
    from logging import handlers  # a broker without a file starts without it

    if broker_id is not None:
        path = path.with_name(f"{path.stem}-{broker_id}{path.suffix}")
    if options.file_bytes:
        return handlers.RotatingFileHandler(
            path, maxBytes=options.file_bytes, backupCount=options.file_count, encoding="utf-8"
        )
    return handlers.WatchedFileHandler(path, encoding="utf-8")
