"""Parsing of a web server's access log (combined format) with Spark's expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LINE: Final = (
    r'^([^ \t]+) [^ \t]+ [^ \t]+ \[([^\]\t]+)\] "([A-Z]+) ([^ "\t]+)(?: [^"\t]*)?" ([0-9]{3}) ([0-9]{1,18}|-)'
    r' "([^"\t]*)" "([^"\t]*)"\z'
)
"""The regular expression of a line. No field may contain a tab, because a match is split at tabs."""
FIELDS: Final = ("visitor", "time", "method", "page", "status", "bytes", "referrer", "agent")
TIME_FORMAT: Final = "dd/MMM/yyyy:HH:mm:ss Z"
BOT: Final = "(?i)bot|crawl|spider|curl"


def parsed(rows: DataFrame) -> DataFrame:
    """Return the rows with the additional columns `line` (text; null if the value is null or not UTF-8), `is_visit`
    (whether the line can be parsed), FIELDS and `is_bot` (whether the user agent is a bot).

    FIELDS and `is_bot` are null if the line cannot be parsed. `time` is also null if it is not a date, and `bytes` and
    `referrer` if they are `-`.
    """
    text = F.col("value").cast("string")
    rows = rows.withColumn("line", F.when(F.is_valid_utf8(text), text))
    # One match for all fields; regexp_extract would match the line once per field.
    cut = F.split(F.regexp_replace("line", LINE, "\t".join(f"${i}" for i in range(1, len(FIELDS) + 1))), "\t", -1)
    rows = rows.withColumn("fields", F.when(F.col("line").rlike(LINE), cut))
    taken = {name: F.col("fields")[i] for i, name in enumerate(FIELDS)}
    typed = {
        **taken,
        "time": F.try_to_timestamp(taken["time"], F.lit(TIME_FORMAT)),
        "status": taken["status"].cast("int"),
        "bytes": F.when(taken["bytes"] != "-", taken["bytes"].cast("bigint")),
        "referrer": F.when(taken["referrer"] != "-", taken["referrer"]),
        "is_bot": taken["agent"].rlike(BOT),
        "is_visit": F.col("fields").isNotNull(),
    }
    return rows.withColumns(typed).drop("fields")
