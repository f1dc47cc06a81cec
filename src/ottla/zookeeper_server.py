"""A ZooKeeper server on the loopback address, for tests and for clusters on one machine. Its jars are those of PySpark.

    with ZooKeeperServer(directory) as zookeeper:
        zookeeper.connect       # "127.0.0.1:34567"

It requires `ottla[spark]` and a Java runtime (`ottla.java`). The data is in the directory and remains there after a
kill.
"""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ottla.errors import StartupError
from ottla.java import find_java
from ottla.net.ports import free_port

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0
TICK_MS: Final = 100
"""The default length of a tick in milliseconds. Sessions expire on a tick, so up to 100 ms after their timeout."""
SESSION_MS: Final = (500, 60_000)
"""The default minimum and maximum session timeout in milliseconds."""
MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
JVM: Final = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dzookeeper.jmx.log4j.disable=true",
)
LOGGING: Final = """status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


class ZooKeeperServer:
    """A ZooKeeper server in a child process.

    `start` raises StartupError if PySpark is not installed, or if the server exits or does not respond within
    `START_SECONDS`, and ConfigurationError if there is no suitable Java.
    """

    def __init__(self, directory: Path, port: int | None = None, settings: Mapping[str, object] | None = None) -> None:
        """Create a server that is not started. `port`: None for a free one. `settings`: settings of its zoo.cfg, which
        override the default ones.
        """
        self.directory = directory
        self._settings = dict(settings or {})
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def connect(self) -> str:
        """The value for zookeeper.connect."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id of the server; None before `start`, and after `stop` or `kill`."""
        return None if self._process is None else self._process.pid

    @property
    def log(self) -> Path:
        """The path of the server's log file."""
        return self.directory / "zookeeper.log"

    def start(self) -> None:
        """Start the server and wait until it responds."""
        command = self.prepare()
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        self._wait()

    def prepare(self) -> list[str]:
        """Write the configuration files of the server, and return its command line."""
        self.directory.mkdir(parents=True, exist_ok=True)
        settings = {
            "tickTime": TICK_MS,
            "minSessionTimeout": SESSION_MS[0],
            "maxSessionTimeout": SESSION_MS[1],
            "dataDir": self.directory / "data",
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "maxClientCnxns": 0,
            "extendedTypesEnabled": "true",
            **self._settings,
        }
        config, logging = self.directory / "zoo.cfg", self.directory / "log4j2.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        logging.write_text(LOGGING)
        command = [str(find_java(program="ZooKeeper").executable), *JVM, f"-Dlog4j2.configurationFile={logging}"]
        return [*command, "-cp", f"{_jars()}/*", MAIN, str(config)]

    def responds(self) -> bool:
        """Return whether the server responds."""
        return b"Mode:" in _send_command(self.port, b"srvr")

    def stop(self) -> None:
        """Stop the server with SIGTERM, or with SIGKILL if that takes longer than `STOP_SECONDS`. Wait for its end."""
        self._end(kill=False)

    def kill(self) -> None:
        """Kill the server with SIGKILL, and wait for its end."""
        self._end(kill=True)

    def _end(self, *, kill: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if kill:
            process.kill()
        else:
            process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _wait(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            if self.responds():
                return
            time.sleep(0.05)
        self.kill()
        raise StartupError(f"ZooKeeper did not start; see {self.log}")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _send_command(port: int, word: bytes) -> bytes:
    """Return the response to a four-letter command; empty if the server cannot be reached or does not respond."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as sock:
            sock.sendall(word)
            return b"".join(iter(lambda: sock.recv(4096), b""))
    except OSError:
        return b""


def _jars() -> Path:
    try:
        import pyspark
    except ImportError:
        raise StartupError("ZooKeeper's jars come with PySpark: `pip install 'ottla[spark]'`") from None
    return Path(pyspark.__file__).parent / "jars"
