"""The Spark session of a pipeline, with a Spark Connect server in a child process or one that is already running.

A server that is started here uses the Java of `ottla.java` and this Python interpreter. `spark-pipelines` would start
two JVMs, the first only to compute the options of the second. The server has a persistent catalog, since without one
the next run would not know the tables, and find their directories occupied. The catalog is Hive's metastore in an
embedded Derby database, in a directory of the project.
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
"""All cores, with four attempts per task as on a cluster, so that the crash of a Python worker does not fail a flow."""

CONNECT_PORT: Final = 15002
"""The default port of a Spark Connect server."""
REACH_SECONDS: Final = 10.0
"""Timeout for connecting to a Spark Connect server."""

STATE_STORE: Final = (
    "spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
)
"""The config for the state store. RocksDB is the only one that supports transformWithState."""

_RUN_DEFAULTS: Final = {
    # Retry after one second instead of five, because a broker restarts quickly.
    "spark.sql.pipelines.execution.watchdog.minRetryTime": "1s",
    "spark.sql.pipelines.execution.watchdog.maxRetryTime": "10s",
    "spark.sql.pipelines.maxFlowRetryAttempts": "10",
    # Each flow over a topic starts Python processes. Spark gives them ten seconds to start, and sixteen at once (the
    # default) take longer on a small machine.
    "spark.sql.pipelines.execution.maxConcurrentFlows": "4",
    "spark.python.unix.domain.socket.enabled": "true",
    STATE_STORE[0]: STATE_STORE[1],
    "spark.sql.connect.serverStacktrace.enabled": "false",
    "spark.sql.catalogImplementation": "hive",
}


def settings(project: Path, port: int, overrides: Mapping[str, str], memory: str = "1g") -> dict[str, str]:
    """Return the configs of the server. `overrides` take precedence over the defaults."""
    from ottla.spark.environment.spark_versions import AVAILABLE_NOW_CONFIGS

    state = project / STORAGE
    return {
        **LOCAL_DEFAULTS,
        **_RUN_DEFAULTS,
        **AVAILABLE_NOW_CONFIGS,
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": (
            f"{FIRST_COMPILER_ONLY} -XX:+UseParallelGC -Dderby.stream.error.file={state / 'catalog.log'}"
        ),
        # Not as a URI: Spark would use an escaped character such as %C3%BC literally.
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
    """Yield a session of Spark Connect with the server at `remote` (`sc://host:port`). If that is None, start a server,
    which ends with the session.

    Raises ConfigurationError if a package or a suitable Java is missing, or if the server does not start or cannot be
    reached; and KafkaError if a server that was started here ends before the session.
    """
    try:
        from pyspark.sql.connect.session import SparkSession as ConnectSession
    except ImportError as error:
        what = str(error).rstrip(".")
        raise ConfigurationError(f"{what}; install it with `pip install 'ottla[pipelines]'`") from error
    builder = ConnectSession.builder
    jvm = None
    if remote is None:
        remote, jvm = _start_server(project, master, overrides or {})
    else:
        _reach(remote)
        from ottla.spark.environment.spark_versions import AVAILABLE_NOW_CONFIGS

        # On a running server, only configs that can be changed at runtime take effect.
        builder = builder.config(map={**AVAILABLE_NOW_CONFIGS, **(overrides or {})})
    # With this variable, functions such as `F.col` return columns of Spark Connect.
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
    """Return the retry policy of Spark Connect, which retries for ten minutes, except that it stops when the server's
    process has ended.
    """
    from pyspark.sql.connect.client.retries import DefaultPolicy

    class WhileAlive(DefaultPolicy):
        def can_retry(self, exception: BaseException) -> bool:
            return jvm.poll() is None and super().can_retry(exception)

    return WhileAlive()


@contextmanager
def _reporting_server_exit(jvm: subprocess.Popen[bytes], project: Path) -> Iterator[None]:
    """Replace an exception of the block with a KafkaError if the server's process has ended."""
    try:
        yield
    except Exception as error:
        code = jvm.poll()
        if code is None:
            raise
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        raise KafkaError(
            f"Spark's JVM ended before the run was complete ({how}); see {project / LOG}, and run again"
        ) from error


def _reach(remote: str) -> None:
    """Raise ConfigurationError if the URL is invalid, or no server accepts connections there. Spark Connect's client
    would retry for ten minutes without a message.
    """
    address = urlsplit(remote)
    try:
        host, port = address.hostname, address.port or CONNECT_PORT
    except ValueError:  # the port is not a number
        host = None
    if address.scheme != "sc" or not host:
        # The value is not shown, because it may contain a token.
        raise ConfigurationError("--remote: not an address of a Spark Connect server; use sc://HOST:PORT")
    where = f"{host}:{port}"
    try:
        socket.create_connection((host, port), REACH_SECONDS).close()
    except OSError as error:
        raise ConfigurationError(
            f"--remote: cannot connect to {where}: {error}. Is a Spark Connect server running there?"
        ) from None


def _start_server(project: Path, master: str, overrides: Mapping[str, str]) -> tuple[str, subprocess.Popen[bytes]]:
    """Start a server, and return its URL and its process. Raises ConfigurationError if it does not start."""
    from pyspark import SparkContext
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    prepare_environment()
    if master.startswith("local"):
        use_installed_pyspark()
        overrides = {**worker_sockets(), **overrides}
    # With this variable, the server ends with the session.
    os.environ["SPARK_LOCAL_REMOTE"] = "1"
    port = free_port()
    (project / STORAGE).mkdir(exist_ok=True)
    # Like `SparkSession.builder.remote("local")`, but with a free port, because 15002 may be in use.
    try:
        with _stderr_to(project / LOG):
            ConnectSession._start_connect_server(master, settings(project, port, overrides))
    except Exception as error:
        # These are exceptions of Py4J and PySpark. The last output of the JVM is only in the log.
        raise ConfigurationError(f"Spark does not start: {first_line(str(error))}; see {project / LOG}") from error
    # With the host name localhost, the client sends the token without TLS.
    return f"sc://localhost:{port}", cast(Any, SparkContext._gateway).proc


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Redirect stderr of this process and its children to a file, because Spark logs a stack trace even for errors
    that it retries.
    """
    before = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
