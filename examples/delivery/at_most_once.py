"""At most once: the offset is committed before the record is processed. A kill between the two loses the record.

`--commit first` (the default) commits what poll() has returned and then processes it: no record is processed twice.
`--commit auto` is auto commit with a short interval, without commit calls. It costs less and guarantees less: records
that were processed since the last commit are processed again after a kill.
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
    arguments.add_argument("--commit", choices=("first", "auto"), default="first")
    options = arguments.parse_args()
    end_at_sigterm()
    auto = options.commit == "auto"
    commits = {"enable_auto_commit": auto, "auto_commit_interval_ms": 100}
    out = os.open(options.out, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with KafkaConsumer(options.topic, **group_options(options), **commits) as consumer:
        while True:
            polled = consumer.poll(timeout_ms=1000)
            if not polled:
                continue
            if not auto:
                try:
                    consumer.commit_sync()
                except CommitFailedError as error:
                    print(f"{error}; another member reads these records", file=sys.stderr)
                    continue
            for records in polled.values():
                for record in records:
                    os.write(out, record.value + b"\n")


if __name__ == "__main__":
    main()
