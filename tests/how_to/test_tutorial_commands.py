"""The commands of docs/tutorial.md print what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.how_to.pages import ADDRESS, run_commands
from tests.unit.docs.code_blocks import DOCS, code_blocks, outputs

import ottla

TUTORIAL = DOCS / "tutorial.md"


def comparable(output: str) -> list[str]:
    """Return the lines with a # for what differs from run to run: numbers, ids of topics, the controller.

    The last two lines are sorted, because records of several partitions come in any order.
    """
    output = re.sub(r"(TopicId: )\S+", r"\1#", output.replace("controller", ""))
    lines = [re.sub(r"\s+", " ", re.sub(r"\d[\d,.:]*", "#", line)).strip() for line in output.splitlines()]
    return [*lines[:-2], *sorted(lines[-2:])]


def test_first_commands_print_what_the_page_shows(tmp_path: Path) -> None:
    commands, output = outputs(TUTORIAL, "sh")[0]
    with ottla.Broker() as broker:
        assert run_commands(commands.replace(ADDRESS, broker.bootstrap_servers), tmp_path) == output


def test_commands_of_the_cluster_print_what_the_page_shows(tmp_path: Path) -> None:
    (up, state), *steps = outputs(TUTORIAL, "sh")[1:]
    (end,) = [block.source for block in code_blocks(TUTORIAL) if "cluster down" in block.source]
    try:
        printed = run_commands(up.replace("cluster up", "cluster up --base-port 0"), tmp_path)
        assert comparable(printed) == comparable(state)
        (address,) = re.findall(r"^broker 0 +(\S+)", printed, re.MULTILINE)
        for commands, output in steps:
            printed = run_commands(commands.replace(ADDRESS, address), tmp_path)
            assert comparable(printed) == comparable(output)
        assert "\tLeader: 1\t" not in printed
        # The status is a failure as long as broker 1 has not caught up.
        printed = run_commands(end.replace("cluster status", "cluster status || true"), tmp_path)
        assert "broker 1 runs" in printed
        assert "0 offline" in printed
    finally:
        subprocess.run([sys.executable, "-m", "ottla", "cluster", "down"], cwd=tmp_path, check=False, timeout=60)
