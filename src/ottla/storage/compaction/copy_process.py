"""The copy of a cleaner pass in a process of its own.

In a thread, it would share the interpreter lock with the event loop: the loop would get half of a core, and each client
would wait for the lock. The process has a lower priority, so that clients come first if there are not enough cores.

The broker writes the plan, a pickle, to the process's standard input. The process writes pickles to its standard
output: after each SPEND_BYTES that it reads or writes, their number, and last the result or the error. After each
number, it waits until the broker's throttle lets it go on. If the broker ends, the pipes close, so the process ends as
well.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from ottla.errors import KafkaError
from ottla.storage.compaction import copier
from ottla.storage.compaction.copier import CopiedSegments, CopyPlan, Spend
from ottla.storage.files import ResourcesExhaustedError

log = logging.getLogger("ottla.storage.compaction.cleaner")

PROCESS_BYTES: Final = 16 * 1024 * 1024
"""Total size of the segments in bytes from which a process is started. Starting it takes 0.1 s of CPU and 25 MB of
memory.
"""
SPEND_BYTES: Final = 1024 * 1024
NICENESS: Final = 10
"""The number by which the process's niceness is raised: the higher the niceness, the lower the priority."""
GO_ON: Final = b"\n"
EXIT_SECONDS: Final = 5


def copy_segments(plan: CopyPlan, spend: Spend) -> CopiedSegments:
    """Run a copy in a process, or in this thread if it is small or no process can be started.

    Raises the errors of `SegmentCopier.copy`, ResourcesExhaustedError if the process ends without a result, and
    KafkaError for an unexpected error in the process.
    """
    if plan.source_bytes < PROCESS_BYTES:
        return copier.copy_segments(plan, spend)
    try:
        process = _start()
    except OSError as error:
        log.warning("Cannot start a process for the compaction of %s; using a thread: %s", plan.directory, error)
        return copier.copy_segments(plan, spend)
    try:
        return _result(process, plan, spend)
    except (BrokenPipeError, EOFError, pickle.UnpicklingError):
        raise ResourcesExhaustedError(
            f"the process that compacts {plan.directory} ended with exit code {_exit_code(process)}; it may have been "
            "killed for want of memory (log.cleaner.dedupe.buffer.size)"
        ) from None
    finally:
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # of what was not sent yet
                    pipe.close()
        process.wait()


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _start() -> subprocess.Popen[bytes]:
    package = str(Path(__file__).parents[3])
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "ottla.storage.compaction.copy_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )


def _result(process: subprocess.Popen[bytes], plan: CopyPlan, spend: Spend) -> CopiedSegments:
    assert process.stdin is not None
    assert process.stdout is not None
    pickle.dump(plan, process.stdin)
    process.stdin.flush()
    while True:
        message = pickle.load(process.stdout)
        if isinstance(message, CopiedSegments):
            return message
        if isinstance(message, Exception):
            raise message
        spend(message)
        process.stdin.write(GO_ON)
        process.stdin.flush()


def main() -> None:
    """Read a plan from standard input, run the copy, and write its result or error to standard output."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(
            number, signal.SIG_IGN
        )  # a terminal or systemd sends them to all processes; the broker ends this one
    os.nice(NICENESS)
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    unspent = 0

    def spend(nbytes: int) -> None:
        nonlocal unspent
        unspent += nbytes
        if unspent >= SPEND_BYTES:
            pickle.dump(unspent, replies)
            replies.flush()
            if requests.read(len(GO_ON)) != GO_ON:
                raise BrokenPipeError
            unspent = 0

    try:
        plan: CopyPlan = pickle.load(requests)
        pickle.dump(_outcome(plan, spend), replies)
        replies.flush()
    except (BrokenPipeError, EOFError):  # the broker has ended
        os._exit(1)


def _outcome(plan: CopyPlan, spend: Spend) -> CopiedSegments | Exception:
    try:
        return copier.copy_segments(plan, spend)
    except BrokenPipeError:
        raise
    except (OSError, KafkaError) as error:
        return error
    except Exception as error:
        log.exception("Unexpected error in the compaction of %s", plan.directory)
        return KafkaError(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
