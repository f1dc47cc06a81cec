"""Look for bytes that reach new code of decoders and parsers, with Atheris (libFuzzer for Python).

    make fuzz-coverage ARGS="--seconds 60 --target znode_values"

Each target of `fuzz.inputs` runs in a child process, from the inputs in `fuzz/corpus` and those of earlier runs
in `build/fuzz`. Bytes for which a target raises an unexpected error are written to `build/fuzz/failures`, and the exit
code is then 1. `--save` replaces the corpus by some of the inputs that have reached new code.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NoReturn

from fuzz.seeds import SEEDS, WORDS

CORPUS: Final = Path(__file__).resolve().parent / "corpus"
WORK: Final = Path("build/fuzz")
FAILURES: Final = WORK / "failures"
MAX_BYTES: Final = 1024
"""Maximum length of an input."""
MAX_SAVED: Final = 40
"""Maximum number of inputs of a target in `fuzz/corpus`."""
SHOWN: Final = 60
"""Number of lines that are printed of a failure."""
LIMITS: Final = (f"-max_len={MAX_BYTES}", "-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=0")


def corpus_of(target: str) -> list[bytes]:
    """Return the inputs in the repository: a line of base64 each."""
    path = CORPUS / f"{target}.txt"
    return [b64decode(line) for line in path.read_text().split()] if path.exists() else []


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz the targets one after the other."""
    targets = _instrumented()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20, help="time per target")
    parser.add_argument("--target", action="append", choices=list(targets), help="only these targets")
    parser.add_argument("--save", action="store_true", help="update fuzz/corpus")
    options = parser.parse_args(arguments)
    FAILURES.mkdir(parents=True, exist_ok=True)
    names = options.target or targets
    failed = [name for name in names if not _fuzz(name, targets[name], options.seconds, save=options.save)]
    print(f"failed: {', '.join(failed)}; inputs in {FAILURES}" if failed else "no target failed")
    return int(bool(failed))


def _instrumented() -> dict[str, Callable[[bytes], object]]:
    """Import the targets and the modules that they use, instrumented for coverage by Atheris."""
    import atheris

    included = ["ottla", "fuzz"]
    quiet = contextlib.redirect_stderr(io.StringIO())  # it prints the name of each module
    with quiet, atheris.instrument_imports(include=included, enable_loader_override=False):
        from fuzz.inputs import TARGETS
        from ottla.protocol import codegen

    compiled = codegen.Source.compile

    def compile_instrumented(source: codegen.Source, head: str) -> object:
        return atheris.instrument_func(compiled(source, head))

    setattr(codegen.Source, "compile", compile_instrumented)  # noqa: B010
    return TARGETS


def _fuzz(target: str, call: Callable[[bytes], object], seconds: int, *, save: bool) -> bool:
    """Fuzz one target. Return whether it has not failed."""
    directory = WORK / target
    directory.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate([*corpus_of(target), *SEEDS.get(target, ())]):
        (directory / f"corpus-{number}").write_bytes(data)
    words = WORK / "words.dict"
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in WORDS))
    limits = [*LIMITS, f"-max_total_time={seconds}", f"-dict={words}", f"-artifact_prefix={FAILURES}/{target}-"]
    output = WORK / f"{target}.log"
    child = os.fork()
    if not child:
        _run_child(output, call, [*limits, str(directory)])
    _, status = os.waitpid(child, 0)
    lines = output.read_text(errors="replace").splitlines()
    stats = dict(line[6:].split(":", 1) for line in lines if line.startswith("stat::"))
    count = stats.get("number_of_executed_units", "?").strip()
    print(f"{target}: {count} inputs, {len(list(directory.iterdir()))} reach different code", flush=True)
    if status:
        print(*lines[-SHOWN:], sep="\n", flush=True)  # with the traceback
    if save:
        _save(target, directory)
    return not status


def _escaped(word: bytes) -> str:
    """Return a word in the syntax of libFuzzer's dictionaries."""
    return "".join(f"\\x{byte:02x}" for byte in word)


def _save(target: str, directory: Path) -> None:
    """Write inputs of all lengths to the corpus: the shortest ones seldom reach the most code."""
    contents = {path.read_bytes() for path in directory.iterdir()} - {b""}
    inputs = sorted(contents, key=lambda data: (len(data), data))
    CORPUS.mkdir(exist_ok=True)
    lines = [b64encode(data).decode() for data in inputs[:: len(inputs) // MAX_SAVED + 1]]
    (CORPUS / f"{target}.txt").write_text("\n".join(lines) + "\n")


def _run_child(output: Path, call: Callable[[bytes], object], options: Sequence[str]) -> NoReturn:
    """Run libFuzzer, which ends this process."""
    import atheris

    try:
        with output.open("wb") as file:
            os.dup2(file.fileno(), sys.stdout.fileno())
            os.dup2(file.fileno(), sys.stderr.fileno())
        logging.disable(logging.CRITICAL)
        atheris.Setup([sys.argv[0], *options], call)
        atheris.Fuzz()
    finally:
        sys.stdout.flush()
        os._exit(1)


if __name__ == "__main__":
    if not os.environ.get("OTTLA_PURE"):  # the compiled hot path has no coverage
        os.execve(
            sys.executable, [sys.executable, "-m", "fuzz.coverage", *sys.argv[1:]], {**os.environ, "OTTLA_PURE": "1"}
        )
    sys.exit(main())
