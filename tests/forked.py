"""A pytest plugin that collects the tests once and runs them in forked processes: `-p tests.forked --forks 6`.

Each worker of pytest-xdist collects all tests, which takes 6 seconds of CPU, or 18 if nothing is compiled yet.
Forked processes share the imported modules. The order is that of the collection: a process runs some tests of a file,
then the next ones that no other process runs. If a test ends its process, the run ends, so that it is noticed.

Other features of pytest, such as `-x`, `--last-failed`, `--durations`, captured output and warnings, work as in one
process.
"""

from __future__ import annotations

import builtins
import os
import random
import signal
import struct
import traceback
import warnings
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Final, NamedTuple

import pytest

MAX_CHUNK: Final = 50
"""Maximum number of tests that a process takes at once, all of one file."""
CHUNK: Final = struct.Struct("ii")
PIPE_BYTES: Final = 1 << 20


class Chunk(NamedTuple):
    """Tests from an index of the collected ones up to another."""

    start: int
    end: int


class ChunkQueue:
    """A queue of chunks in a pipe, shared by several processes: reads of a few bytes are atomic."""

    def __init__(self, chunks: list[Chunk]) -> None:
        self._reader, writer = os.pipe()
        data = b"".join(CHUNK.pack(*chunk) for chunk in chunks)
        if len(data) > 1 << 16:
            import fcntl

            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.set_blocking(writer, False)
        written = os.write(writer, data)
        os.close(writer)
        if written < len(data):
            raise pytest.UsageError(f"{len(chunks)} files and parts of files are too many for a pipe")

    def __iter__(self) -> Iterator[Chunk]:
        while data := os.read(self._reader, CHUNK.size):
            yield Chunk(*CHUNK.unpack(data))

    def close(self) -> None:
        """Close it in this process."""
        os.close(self._reader)


class Sender:
    """Sends the events of a forked process to the process that reports them."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self._connection.send(("start", (nodeid, location)))

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        self._connection.send(("finish", (nodeid, location)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(("report", data))

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str, location: Any
    ) -> None:
        message = warning_message
        place = (message.filename, message.lineno)
        self._connection.send(("warning", (str(message.message), message.category.__name__, place, when, nodeid)))


class Hooks:
    """Hooks of other plugins that gather something in each process."""

    def pytest_forked_process_started(self) -> None:
        """Prepare this forked process, before its first test."""

    @pytest.hookspec(firstresult=True)
    def pytest_forked_process_result(self) -> Any:
        """Return what this forked process has gathered, after its last test."""

    def pytest_forked_process_ended(self, result: Any) -> None:
        """Receive what a forked process has gathered, in the process that reports the tests."""


class Forks:
    """Runs collected tests in forked processes."""

    def __init__(self, count: int) -> None:
        self._count = count

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run the tests, unless only one could run at a time, or none."""
        if session.testsfailed or session.config.option.collectonly or len(session.items) < 2:
            return None
        queue = ChunkQueue(list(chunks(session.items)))
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one for all
        processes: dict[Connection, Process] = {}
        try:
            for number in range(self._count):
                process = Process(*fork(lambda sender, n=number: run_tests(session, queue, sender, n)))  # type: ignore[misc]
                processes[process.connection] = process
            report_all(session, processes)
        finally:
            queue.close()
            for process in processes.values():
                process.end()
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True


class Process:
    """A forked process and the test that it runs."""

    def __init__(self, pid: int, connection: Connection) -> None:
        self.connection = connection
        self.test = "before its first test"
        self._pid = pid

    def end(self) -> None:
        """Wait for the process if it is done, or kill it."""
        if not self.connection.closed:
            self.connection.close()
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def chunks(items: list[pytest.Item]) -> Iterator[Chunk]:
    """Divide the tests: each chunk is of one file."""
    start = 0
    for index in range(1, len(items) + 1):
        if index == len(items) or index - start == MAX_CHUNK or items[index].path != items[start].path:
            yield Chunk(start, index)
            start = index


def fork(target: Callable[[Connection], None]) -> tuple[int, Connection]:
    """Run a function in a forked process."""
    reader, writer = Pipe(duplex=False)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # Python 3.12 warns because Arrow has a thread; Arrow handles forks
        pid = os.fork()
    if pid:
        writer.close()
        return pid, reader
    try:
        target(writer)
        writer.send(("done", ()))
    except BaseException:
        writer.send(("error", (traceback.format_exc(),)))
    finally:
        os._exit(0)  # without the cleanup of the parent process
    raise AssertionError


def run_tests(session: pytest.Session, queue: ChunkQueue, connection: Connection, number: int) -> None:
    """Run tests of the queue until it is empty, in a forked process."""
    config = session.config
    random.seed()
    config.hook.pytest_forked_process_started()
    plugins = config.pluginmanager
    capture: Any = plugins.getplugin("capturemanager")
    capture.stop_global_capturing()  # its files are shared with the other processes
    capture.start_global_capturing()
    plugins.unregister(name="terminalreporter")
    plugins.register(Sender(config, connection))
    factory: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    base = factory.getbasetemp()
    upcoming: list[pytest.Item] = []
    for index, chunk in enumerate(queue):
        # pytest lists a directory for each new subdirectory
        factory._basetemp = base / f"{number}-{index}"
        factory._basetemp.mkdir(mode=0o700)
        upcoming += session.items[chunk.start : chunk.end]
        while len(upcoming) > 1:
            config.hook.pytest_runtest_protocol(item=upcoming.pop(0), nextitem=upcoming[0])
    if upcoming:
        config.hook.pytest_runtest_protocol(item=upcoming[0], nextitem=None)
    connection.send(("result", config.hook.pytest_forked_process_result()))


def report_all(session: pytest.Session, processes: dict[Connection, Process]) -> None:
    """Report what the processes send until all are done."""
    hook = session.config.hook
    while running := [connection for connection in processes if not connection.closed]:
        for connection in wait(running):
            assert isinstance(connection, Connection)
            process = processes[connection]
            try:
                kind, values = connection.recv()
            except EOFError:
                pytest.exit(f"The process of a test ended: {process.test}", returncode=pytest.ExitCode.INTERNAL_ERROR)
            match kind:
                case "start":
                    process.test = values[0]
                    hook.pytest_runtest_logstart(nodeid=values[0], location=values[1])
                case "finish":
                    hook.pytest_runtest_logfinish(nodeid=values[0], location=values[1])
                case "report":
                    report = hook.pytest_report_from_serializable(config=session.config, data=values)
                    hook.pytest_runtest_logreport(report=report)
                case "warning":
                    report_warning(session.config, *values)
                case "result":
                    hook.pytest_forked_process_ended(result=values)
                case "error":
                    pytest.exit(values[0], returncode=pytest.ExitCode.INTERNAL_ERROR)
                case "done":
                    connection.close()
        if session.shouldfail or session.shouldstop:
            return


def report_warning(
    config: pytest.Config, text: str, category: str, place: tuple[str, int], when: str, nodeid: str
) -> None:
    """Add a warning to the summary."""
    kind = getattr(builtins, category, Warning)
    message = warnings.WarningMessage(text, kind, *place)
    values = {"warning_message": message, "when": when, "nodeid": nodeid, "location": None}
    config.hook.pytest_warning_recorded.call_historic(kwargs=values)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option."""
    parser.addoption("--forks", type=int, default=0, metavar="N", help="run the tests in N forked processes")


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks."""
    pluginmanager.add_hookspecs(Hooks)


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin if there are processes to fork."""
    if config.option.forks:
        config.pluginmanager.register(Forks(config.option.forks))
