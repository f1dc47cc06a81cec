"""Page visits in the format of a web server's log (Apache's combined format), generated from a seed.

Visitors come from referrers, read a few pages and leave. By default, a tenth of the lines is from bots. Some lines are
late, and some are malformed as in real logs, for example truncated, garbled, empty, or with an invalid date or status.
The same seed produces the same lines.

`visits(...)` yields records for the topic `visits`. The key is the visitor's address, so that the lines of a visitor
stay in order; the value is the line; the timestamp is the time of the request, even if the line is late.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

BEGIN: Final = dt.datetime(2026, 3, 1, 8, 0, tzinfo=dt.UTC)
"""The time at which the first line is sent. One line follows per second; the visits of late lines were earlier."""
PRESENT: Final = 30
"""The number of visitors, not counting bots, who are present at the same time; fewer if there are fewer people."""
STAY: Final = 40
"""The number of visits (of all visitors) after which one visitor is replaced. A visitor thus stays for PRESENT * STAY
visits.
"""
LATEST_S: Final = 600
"""The delay of a late line in seconds is less than this. Windows and sessions must stay open at least this long."""

PAGES: Final = ("/", "/products", "/products/1", "/products/2", "/cart", "/checkout", "/about", "/blog", "/blog/kafka")
REFERRERS: Final = ("-", "-", "https://search.example/?q=ottla", "https://news.example/", "https://social.example/p/7")
BROWSERS: Final = (
    "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0",
    "Mozilla/5.0 (Macintosh) Safari/605.1.15",
    "Mozilla/5.0 (Windows NT 10.0) Chrome/141.0",
)
BOTS: Final = ("Googlebot/2.1 (+http://www.google.com/bot.html)", "curl/8.5.0", "AhrefsBot/7.0 (spider)")
STATUSES: Final = (200, 200, 200, 200, 304, 404, 500)


class Visit(NamedTuple):
    """A record to send."""

    key: bytes
    value: bytes | None
    timestamp_ms: int


def visits(
    seed: int, count: int, *, malformed: float = 0.05, bots: float = 0.1, late: float = 0.02, people: int | None = None
) -> Iterator[Visit]:
    """Yield `count` visits.

    Args:
        seed: the same seed produces the same visits.
        count: the number of visits.
        malformed: the fraction of malformed lines.
        bots: the fraction of lines from bots.
        late: the fraction of lines that are sent late, by less than LATEST_S seconds.
        people: the number of distinct visitors without bots, who return after a while. Default: one for every
            200 lines, but at least 100.
    """
    dice = random.Random(seed)
    crowd = people or max(count // 200, 100)
    for i in range(count):
        at = BEGIN + dt.timedelta(seconds=i)
        if dice.random() < late:
            at -= dt.timedelta(seconds=dice.randrange(LATEST_S))
        is_bot = dice.random() < bots
        number = dice.randrange(20) if is_bot else (i // STAY + dice.randrange(PRESENT)) % crowd
        address = f"66.249.{number}.1" if is_bot else f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
        line = access_line(address, at, dice, BOTS[number % len(BOTS)] if is_bot else BROWSERS[number % len(BROWSERS)])
        value = dice.choice(BREAKS)(line, dice) if dice.random() < malformed else line
        yield Visit(address.encode(), value, int(at.timestamp() * 1000))


def access_line(address: str, at: dt.datetime, dice: random.Random, agent: str) -> bytes:
    """Return a line of the access log in the combined format."""
    request = f"GET {dice.choice(PAGES)} HTTP/1.1"
    time = at.strftime("%d/%b/%Y:%H:%M:%S +0000")
    status, size = dice.choice(STATUSES), dice.randrange(200, 20_000)
    return f'{address} - - [{time}] "{request}" {status} {size} "{dice.choice(REFERRERS)}" "{agent}"'.encode()


def _cut(line: bytes, dice: random.Random) -> bytes:
    return line[: dice.randrange(1, len(line) - 1)]


def _garbled(line: bytes, dice: random.Random) -> bytes:
    return dice.randbytes(dice.randrange(1, 80))


def _impossible_date(line: bytes, dice: random.Random) -> bytes:
    return line.replace(b"/Mar/", b"/Mrz/")


def _no_status(line: bytes, dice: random.Random) -> bytes:
    return line.replace(b'HTTP/1.1" ', b'HTTP/1.1" OK')


def _empty(line: bytes, dice: random.Random) -> bytes:
    return b""


def _null(line: bytes, dice: random.Random) -> None:
    return None


def _not_text(line: bytes, dice: random.Random) -> bytes:
    # The line is valid except for these bytes, which are not UTF-8.
    return line.replace(b"GET /", b"GET /\xff\xfe")


BREAKS: Final[tuple[Callable[[bytes, random.Random], bytes | None], ...]] = (
    _cut,
    _garbled,
    _impossible_date,
    _no_status,
    _empty,
    _null,
    _not_text,
)
"""The functions that make a line malformed."""
