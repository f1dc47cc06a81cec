"""The Spark session of a pipeline: a Spark Connect server in a child process, or one that is already running.

`spark-pipelines` starts two JVMs, the first only to compute the options of the second; here it is one. It uses
Ottla's Java (`ottla.java`) and this Python, and keeps a catalog: without one, the next run would not know the
tables, and find their directories occupied. The catalog is Spark's own (Hive's metastore in an embedded Derby), a
directory in the project.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from ottla.errors import ConfigurationError, KafkaError
from ottla.net.ports import free_port
from ottla.spark.environment.sockets import worker_sockets
from ottla.spark.environment.spark_home import use_installed_pyspark
from ottla.spark.session import FIRST_COMPILER_ONLY, LOCAL_DEFAULTS, prepare_environment
from ottla_pipelines.declarative.events import first_line
from ottla_pipelines.declarative.projects import STORAGE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client.retries import RetryPolicy

LOG: Final = Path(STORAGE, "spark.log")
"""The path of Spark's log in a project."""
DEFAULT_MASTER: Final = "local[*,4]"
"""All cores, with four attempts per task, as on a cluster: a Python worker that dies does not fail a flow."""

CONNECT_PORT: Final = 15002
"""The port of a Connect server, unless its URL names another."""
REACH_SECONDS: Final = 10.0
"""Timeout for reaching a server."""

STATE_STORE: Final = (
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)
"""The state store, the only one that transformWithState supports."""

_RUN_DEFAULTS: Final = {
    # Retry after one second, not five: a broker restarts quickly.
    "spark.sql.pipelines.execution.watchdog.minRetryTime": "1s",
    "spark.sql.pipelines.execution.watchdog.maxRetryTime": "10s",
    "spark.sql.pipelines.maxFlowRetryAttempts": "10",
    # Each flow over a topic starts Python processes, which Spark gives ten seconds to report; sixteen at once (the
    # default) take longer than that on a small machine.
    "spark.sql.pipelines.execution.maxConcurrentFlows": "4",
    "spark.python.unix.domain.socket.enabled": "true",
    STATE_STORE[0]: STATE_STORE[1],
    "spark.sql.connect.serverStacktrace.enabled": "false",
    "spark.sql.catalogImplementation": "hive",
}


def settings(project: Path, port: int, overrides: Mapping[str, str], memory: str = "1g") -> dict[str, str]:
    """Return the server's configs; `overrides` win over the defaults."""
    state = project / STORAGE
    return {
        **LOCAL_DEFAULTS,
        **_RUN_DEFAULTS,
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": (
            f"{FIRST_COMPILER_ONLY} -XX:+UseParallelGC -Dderby.stream.error.file={state / 'catalog.log'}"
        ),
        # As text: Spark would take %C3%BC for six characters of a name.
        "spark.sql.warehouse.dir": f"file://{project / 'tables'}",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={state / 'catalog'};create=true",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        **overrides,
    }


@contextmanager
def session(
    project: Path,
    *,
    master: str = DEFAULT_MASTER,
    remote: str | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Yield a Connect session with the server of `remote` (`sc://host:port`), or with one that is started for it.

    Raises ConfigurationError if pyspark's extras or a suitable Java are missing, and KafkaError from within if a server
    that was started here has ended before its session.
    """
    try:
        from pyspark.sql.connect.session import SparkSession as ConnectSession
    except ImportError as error:
        raise ConfigurationError(f"{error}; install it with `pip install 'ottla[pipelines]'`") from error
    builder = ConnectSession.builder
    jvm = None
    if remote is None:
        remote, jvm = _start_server(project, master, overrides or {})
    else:
        _reach(remote)
        # Settings that can be changed on a running server.
        builder = builder.config(map=dict(overrides or {}))
    # Functions (`F.col`) create Connect's columns if this variable is set.
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    spark = cast("SparkSession", builder.remote(remote).getOrCreate())
    try:
        if jvm is None:
            yield spark
        else:
            cast(Any, spark).client.set_retry_policies([retries_while_alive(jvm)])
            with _reporting_server_exit(jvm, project):
                yield spark
    finally:
        spark.stop()


def retries_while_alive(jvm: subprocess.Popen[bytes]) -> RetryPolicy:
    """Return Spark Connect's own retry policy, except that it stops if the server has ended: it retries for ten
    minutes.
    """
    from pyspark.sql.connect.client.retries import DefaultPolicy

    class WhileAlive(DefaultPolicy):
        def can_retry(self, exception: BaseException) -> bool:
            return jvm.poll() is None and super().can_retry(exception)

    return WhileAlive()


@contextmanager
def _reporting_server_exit(jvm: subprocess.Popen[bytes], project: Path) -> Iterator[None]:
    """Report that the server has ended, instead of its client's error."""
    try:
        yield
    except Exception as error:
        code = jvm.poll()
        if code is None:
            raise
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        raise KafkaError(f"Spark's JVM has ended before the run ({how}); see {project / LOG}, and run again") from error


def _reach(remote: str) -> None:
    """Raise ConfigurationError if no server listens: Spark Connect's client would retry for ten minutes without a
    message.
    """
    address = urlsplit(remote)
    try:
        host, port = address.hostname, address.port or CONNECT_PORT
    except ValueError:  # a port that is no number
        host = None
    if address.scheme != "sc" or not host:
        # Without its text, which may have a token.
        raise ConfigurationError("--remote: not an address of a Spark Connect server; use sc://HOST:PORT")
    where = f"{host}:{port}"
    try:
        socket.create_connection((host, port), REACH_SECONDS).close()
    except OSError as error:
        raise ConfigurationError(f"--remote: no answer at {where}: {error}; is a Connect server there?") from None


def _start_server(project: Path, master: str, overrides: Mapping[str, str]) -> tuple[str, subprocess.Popen[bytes]]:
    """Start a server, and return its address and its process."""
    from pyspark import SparkContext
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    prepare_environment()
    if master.startswith("local"):
        use_installed_pyspark()
        overrides = {**worker_sockets(), **overrides}
    # Ends the server with the session.
    os.environ["SPARK_LOCAL_REMOTE"] = "1"
    port = free_port()
    (project / STORAGE).mkdir(exist_ok=True)
    # As `SparkSession.builder.remote("local")`, except for the port: 15002 may be in use.
    try:
        with _stderr_to(project / LOG):
            ConnectSession._start_connect_server(master, settings(project, port, overrides))
    except Exception as error:
        # Py4J's and PySpark's, and the last output of a JVM is in the log only.
        raise ConfigurationError(f"Spark does not start: {first_line(str(error))}; see {project / LOG}") from error
    # By this name the client sends the token without asking for TLS.
    return f"sc://localhost:{port}", cast(Any, SparkContext._gateway).proc


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Redirect stderr to a file for child processes: Spark logs a stack trace even for errors that it retries."""
    before = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
