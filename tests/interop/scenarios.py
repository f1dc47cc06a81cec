"""Programs that test third-party clients: each prints what it checked, and `done` at the end."""

import os
import subprocess

SECONDS = 240
CHECKED = "checked: "


def checked_by(command: list[str], **environment: str) -> list[str]:
    """Run a program to its end, and return what it checked."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env={**os.environ, **environment})
    assert done.stdout.endswith("done\n"), f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert done.returncode == 0
    return [line.removeprefix(CHECKED) for line in done.stdout.splitlines() if line.startswith(CHECKED)]
