"""Start a broker, as kafka-server-start.sh does, or several brokers as one node.

Without arguments, start a standalone broker on 127.0.0.1:9092 with its data in ./ottla-data. Stop the broker with
Ctrl+C or SIGTERM.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import resource
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from ottla import log_output
from ottla.cli.framework.command import Command
from ottla.cli.framework.options import Flag, Option, Repeatable
from ottla.cli.framework.signals import heeded_signals
from ottla.config import properties
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla.broker.node import MultiBrokerNode, Parent
    from ottla.broker.server.broker_node import BrokerNode
    from ottla.cli.table_writer_process import TableWriterProcess
    from ottla.config.broker.broker_config import BrokerConfig

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")
REMOTE_THREADS = "ottla-remote"
"""The beginning of the names of the threads that access remote storage."""
HANGING_SECONDS = 1.0
"""Maximum time in seconds for which a stopped broker waits until its threads that access remote storage have ended."""


def run(args: argparse.Namespace) -> int:
    """Run the broker, or the brokers of a node, until they stop, for example after SIGTERM, SIGINT or SIGHUP. Return
    1 if a broker cannot start, if the only broker fails, or if a broker of a node does not stop cleanly, otherwise 0.
    """
    from ottla.broker.node import parent
    from ottla.config.broker.broker_config import WITHOUT_FILE

    started = time.perf_counter()
    _allow_files()
    try:
        log_output.configure(_log_options(args))
        of_node = parent()
        if of_node is not None:
            return _run_broker(of_node.read_configs(), args, started, of_node)
        configs = properties.load(args.properties) if args.properties else dict(WITHOUT_FILE)
        if args.environment:
            from ottla.config import environment

            configs.update(environment.configs_of(os.environ))
        configs.update(properties.override(text) for text in args.override)
        if args.brokers is not None:
            configs["ottla.brokers"] = args.brokers
        return _run_node(configs, args, started)
    except (KafkaError, OSError) as error:
        log_output.close()  # the error comes last
        print(f"ottla broker: {error}", file=sys.stderr)
        return 1
    finally:
        log_output.close()


def _run_node(configs: dict[str, Any], args: argparse.Namespace, started: float) -> int:
    from ottla.broker.node_configs import broker_count, check_single, node_configs

    count = broker_count(configs)
    if count == 1:
        check_single(configs)
        return _run_broker(configs, args, started)
    from ottla.broker.node import MultiBrokerNode

    arguments = ["broker", *_log_arguments(args)]
    brokers = node_configs(configs, count)

    async def serve() -> int:
        return await _serve_node(MultiBrokerNode(brokers, arguments), started, configs)

    return asyncio.run(serve())


async def _serve_node(node: MultiBrokerNode, started: float, configs: dict[str, Any]) -> int:
    _handle_signals(node.stop)
    await node.start()
    writer = None
    if node.endpoints:
        from ottla.config.broker.broker_config import BrokerConfig

        writer = _start_table_writer(BrokerConfig(configs), node.endpoints[0])
        took = (time.perf_counter() - started) * 1000
        addresses = "; ".join(node.endpoints)
        print(f"ottla broker is ready: {len(node.endpoints)} brokers, {addresses}, {took:.0f} ms", file=sys.stderr)
    code = await node.run()
    if writer is not None:
        await writer.stop()
    return code


def _start_table_writer(config: BrokerConfig, endpoint: object) -> TableWriterProcess | None:
    if not config.ottla_tables_enable:
        return None
    from ottla.cli.table_writer_process import TableWriterProcess

    writer = TableWriterProcess(str(endpoint).rpartition("://")[2], config.ottla_tables_command_config)
    writer.start()
    return writer


def _run_broker(configs: dict[str, Any], args: argparse.Namespace, started: float, parent: Parent | None = None) -> int:
    from ottla.broker.monitoring.event_loop_time import EventLoopTime
    from ottla.broker.server.broker_node import BrokerNode
    from ottla.config.broker.broker_config import BrokerConfig

    loop_time = EventLoopTime()
    node = BrokerNode(BrokerConfig.from_kafka(configs), loop_time=loop_time, compacts_in_processes=True)
    if parent is not None:
        log_output.configure(_log_options(args), node.broker_id, of_node=True)
    elif args.log_format == "json":
        log_output.configure(_log_options(args), node.broker_id)
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(loop_time)) as runner:
        code = runner.run(_serve(node, started, parent))
    _exit_if_threads_hang(code)
    return code


def _exit_if_threads_hang(code: int) -> None:
    """Wait for the threads that access remote storage, for HANGING_SECONDS in all. If some still wait for a response,
    end the process, because the interpreter would wait for them. The broker has already closed its logs. The next
    leader of a partition deletes segments whose upload was not finished.
    """
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(REMOTE_THREADS)]
    for thread in threads:
        thread.join(HANGING_SECONDS / len(threads))
    if any(thread.is_alive() for thread in threads):
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _log_options(args: argparse.Namespace) -> log_output.LogOptions:
    return log_output.LogOptions(
        args.log_level, args.log_format, args.log_file, args.log_file_bytes, args.log_file_count
    )


def _log_arguments(args: argparse.Namespace) -> list[str]:
    """Return the log options as command line arguments for the broker processes of a node."""
    values = _log_options(args)._asdict()
    return [f"--log-{name.replace('_', '-')}={value}" for name, value in values.items() if value is not None]


def _allow_files() -> None:
    """Raise the soft limit of open files to the hard limit, as a JVM does. The usual soft limit of 1,024 is too low for
    a broker.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _handle_signals(stop: Any) -> None:
    for number in heeded_signals():
        asyncio.get_running_loop().add_signal_handler(number, stop)


async def _start(node: BrokerNode, stopping: asyncio.Event) -> bool:
    """Start a broker. Return False if a signal stops it before it is ready."""
    starting, stop = asyncio.ensure_future(node.start()), asyncio.ensure_future(stopping.wait())
    await asyncio.wait((starting, stop), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not starting.done():
        stage = node.stage
        starting.cancel()
        await asyncio.wait((starting,))
        if starting.cancelled():
            logging.getLogger("ottla.broker").info(
                "A signal stopped the broker during its start (stage: %s); exiting", stage
            )
            return False
    await starting
    return True


async def _serve(node: BrokerNode, started: float, parent: Parent | None) -> int:
    stopping = asyncio.Event()
    _handle_signals(stopping.set)
    if not await _start(node, stopping):
        return 0
    addresses = ", ".join(map(str, node.endpoints))
    writer = _start_table_writer(node.config, node.endpoints[0]) if parent is None else None
    ends: list[asyncio.Future[Any]] = [asyncio.ensure_future(event.wait()) for event in (stopping, node.failed)]
    if parent is not None:
        await parent.report_ready(",".join(map(str, node.endpoints)))
        ends.append(asyncio.ensure_future(parent.wait_end()))
    else:
        took = (time.perf_counter() - started) * 1000
        data = ", ".join(node.config.data_dirs)
        http = f"{node.http_url}, " if node.http_url is not None else ""
        # one write, as the thread of the log writes to the same file
        sys.stderr.write(f"ottla broker {node.broker_id} is ready: {addresses}, {http}data in {data}, {took:.0f} ms\n")
        sys.stderr.flush()
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    failed = node.failed.is_set()
    for end in ends:
        end.cancel()
    if writer is not None:
        await writer.stop()
    all_stop = parent is not None and parent.has_ended() and node.config.zookeeper_connect is None
    await node.stop(moves_leaders=not all_stop)
    if failed:
        sys.stderr.write(f"ottla broker: {node.failure}; the broker has stopped\n")
    return int(failed)


LISTENERS_HINT = "--override listeners=PLAINTEXT://127.0.0.1:PORT"
LOG_DIRS_HINT = "--override log.dirs=DIRECTORY"

COMMAND = Command(
    run=run,
    hints={
        **dict.fromkeys(("--port", "--host", "--listeners"), LISTENERS_HINT),
        **dict.fromkeys(("--data", "--log-dirs"), LOG_DIRS_HINT),
    },
    options=(
        Option(
            "properties server.properties",
            "properties file with broker configs (default: a standalone broker on 127.0.0.1:9092)",
            nargs="?",
        ),
        Repeatable("--override NAME=VALUE", "broker config that overrides the file and the environment"),
        Flag(
            "--environment",
            "also take configs from environment variables, which override the file, as in Kafka's container image: "
            "KAFKA_LOG_DIRS is log.dirs",
        ),
        Option(
            "--brokers N",
            "number of brokers on this machine; 0: one per CPU core (default: ottla.brokers, or 1). Each of several "
            "brokers is a process with its own directories; their ports are consecutive",
        ),
        Option(
            "--log-level",
            "least severe level that is logged: debug, info, warning or error",
            choices=LOG_LEVELS,
            default="info",
        ),
        Option(
            "--log-format",
            "format of the log: text, or json for one JSON object per line",
            choices=LOG_FORMATS,
            default="text",
        ),
        Option(
            "--log-file FILE",
            "log file, in place of standard error; without --log-file-bytes, it is reopened after logrotate has moved "
            "it. If there are several brokers, each has a log file with its id in the name",
        ),
        Option(
            "--log-file-bytes N",
            "size in bytes at which the log file is rotated; 0: never (default: 0)",
            type=int,
            default=0,
        ),
        Option(
            "--log-file-count N",
            "with --log-file-bytes: number of rotated log files that are retained; 0: the log file is not rotated",
            type=int,
            default=10,
        ),
    ),
)
