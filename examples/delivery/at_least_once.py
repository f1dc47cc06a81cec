"""At least once: the offset is committed after the record is processed. After a kill in between, it is processed again.

`--commit manual` turns auto commit off; `--commit auto` leaves it on with a long interval, as a safety net for programs
that forget to commit. Both commit after every batch, and both drop partitions that they no longer own: after a
rebalance, the commit fails, and the next owner starts at the last committed offset.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from command_line import end_at_sigterm, group_options, parser

from ottla import KafkaConsumer
from ottla.errors import CommitFailedError


def main() -> None:
    """Append the value of every record to a file, a line each."""
    arguments = parser(__doc__)
    arguments.add_argument("--out", type=Path, required=True, help="the file to append to")
    arguments.add_argument("--commit", choices=("manual", "auto"), default="manual")
    options = arguments.parse_args()
    end_at_sigterm()
    commits = {"enable_auto_commit": options.commit == "auto", "auto_commit_interval_ms": 60_000}
    out = os.open(options.out, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with KafkaConsumer(options.topic, **group_options(options), **commits) as consumer:
        while True:
            polled = consumer.poll(timeout_ms=1000)
            for records in polled.values():
                for record in records:
                    os.write(out, record.value + b"\n")
            if polled:
                try:
                    consumer.commit_sync()
                except CommitFailedError as error:
                    print(f"{error}; another member reads these records again", file=sys.stderr)


if __name__ == "__main__":
    main()
