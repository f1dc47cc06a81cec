"""The log of a server process: text or JSON lines, to stderr or a file, written by a thread.

The event loop only puts records into a queue, since a terminal that is stopped, a full pipe or a slow disk would stop
all clients. The standard library's `QueueHandler` does the same, but its queue is either unbounded or prints a
traceback for each record when it is full; here further records are counted, and the count is logged.
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
"""Records that wait for the thread; further ones are dropped and counted."""
CLOSE_SECONDS: Final = 5.0
"""Time that the end of the process waits for records to be written."""
TEXT: Final = "%(asctime)s %(levelname)s %(message)s (%(name)s)"


class LogOptions(NamedTuple):
    """The options of `ottla broker`."""

    level: str = "warning"
    format: str = "text"
    file: str | None = None
    file_bytes: int = 0
    """The size at which the file is rotated; 0: never, as logrotate does it."""
    file_count: int = 10
    """The number of rotated files."""


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, broker, message, and exception as one string."""

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
    """Lets a thread write the records. The thread starts with the first one."""

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
            # the arguments may change, and a traceback would keep its frames alive
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
        """Wait until the records so far are written, for at most `CLOSE_SECONDS`."""
        if self._thread is not None and self._thread.is_alive():
            written = threading.Event()
            self._queue.put(written)
            written.wait(CLOSE_SECONDS)

    def close(self) -> None:
        """Write the records that wait, for at most `CLOSE_SECONDS`."""
        thread, self._thread = self._thread, None
        if thread is not None and thread.is_alive():
            self._queue.put(None)
            thread.join(CLOSE_SECONDS)
        self._target.close()
        super().close()


def _dropped_record(dropped: int) -> logging.LogRecord:
    text = "%d log lines were dropped, as they could not be written fast enough"
    return logging.LogRecord("ottla.broker", logging.WARNING, __file__, 0, text, (dropped,), None)


def configure(options: LogOptions, broker_id: int | None = None, *, of_node: bool = False) -> None:
    """Send the log of this process where the options say; `of_node`: other brokers of this node do the same."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if options.file is not None:
        handler = _file_handler(options, Path(options.file), broker_id if of_node else None)
    if options.format == "json":
        handler.setFormatter(JsonFormatter(broker_id))
    else:
        handler.setFormatter(logging.Formatter(f"[broker {broker_id}] {TEXT}" if of_node else TEXT))
    logging.basicConfig(level=options.level.upper(), handlers=[BackgroundHandler(handler)], force=True)


def close() -> None:
    """Write the lines that wait, and end the thread."""
    for handler in logging.root.handlers:
        if isinstance(handler, BackgroundHandler):
            handler.close()


def _file_handler(options: LogOptions, path: Path, broker_id: int | None) -> logging.Handler:
    """Return the handler of the file, or of the one of this broker: `broker.log` becomes `broker-1.log`."""
    from logging import handlers  # a broker without a file starts without it

    if broker_id is not None:
        path = path.with_name(f"{path.stem}-{broker_id}{path.suffix}")
    if options.file_bytes:
        return handlers.RotatingFileHandler(
            path, maxBytes=options.file_bytes, backupCount=options.file_count, encoding="utf-8"
        )
    return handlers.WatchedFileHandler(path, encoding="utf-8")
