"""Events from input files: JSON lines, CSV and access logs."""

import datetime as dt
import json
from pathlib import Path

import pytest

from ottla.errors import ConfigurationError
from ottla_pipelines.ingest.files import UNREADABLE, Layout, events, group_of, layout, rows, time_of

ACCESS = '192.0.2.{n} - - [10/Oct/2025:13:55:{n:02d} +0200] "GET /a HTTP/1.1" {status} 512 "-" "curl"\n'


def write_file(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def values(path: Path, by: str | None = None) -> list[dict[str, object]]:
    return [json.loads(b"{" + e.rest + b"}") for e in events(path, by)]


def test_json_lines_are_read_as_events(tmp_path: Path) -> None:
    lines = ['{"ts": 1700000000, "kind": "a", "n": 1}', '{"ts": 1700000001.5, "kind": "b"}', "{broken"] * 2
    path = write_file(tmp_path / "x.jsonl", "\n".join(lines) + "\n")
    actual = values(path)
    assert [v["row"] for v in actual] == [1, 2, 3, 4, 5, 6]
    assert actual[0] == {"row": 1, "time": "2023-11-14T22:13:20Z", "group": "a", "event": lines[0]}
    assert actual[2] == {"row": 3, "time": None, "group": UNREADABLE, "event": "{broken"}


def test_csv_rows_with_quotes_and_line_breaks_are_read(tmp_path: Path) -> None:
    path = write_file(tmp_path / "x.csv", 'date,city,n\n2025-01-02,"a, b\nc",1\n2025-01-03 04:05,d,2\nshort\n')
    actual = values(path, by="city")
    assert [v["group"] for v in actual] == ["a, b\nc", "d", UNREADABLE]
    assert [v["time"] for v in actual] == ["2025-01-02T00:00:00Z", "2025-01-03T04:05:00Z", None]


def test_access_log_events_are_grouped_by_status(tmp_path: Path) -> None:
    path = write_file(
        tmp_path / "access.log", "".join(ACCESS.format(n=n, status=200 + n % 2 * 204) for n in range(6)) + "x\n"
    )
    actual = values(path)
    assert [v["group"] for v in actual] == ["200", "404"] * 3 + [UNREADABLE]
    assert actual[0]["time"] == "2025-10-10T11:55:00Z"


def test_group_is_the_first_field_with_few_values(tmp_path: Path) -> None:
    lines = [json.dumps({"id": n, "time": n, "level": n % 3, "host": n % 2}) for n in range(60)]
    assert layout(write_file(tmp_path / "x.jsonl", "\n".join(lines)), None) == Layout("time", "level")


def test_events_without_group_and_time_form_one_group(tmp_path: Path) -> None:
    path = write_file(tmp_path / "x.jsonl", "\n".join(json.dumps({"id": n}) for n in range(60)))
    actual = layout(path, None)
    (row, *_) = rows(path)
    assert actual == Layout(None, None)
    assert (group_of(row, actual), time_of(row, actual)) == ("(all)", None)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("1700000000", dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)),
        ("1700000000123", dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)),
        ("2025-03-04T05:06:07+02:00", dt.datetime(2025, 3, 4, 3, 6, 7, tzinfo=dt.UTC)),
        ("yesterday", None),
        ("", None),
    ],
)
def test_event_time_is_parsed_from_common_formats(tmp_path: Path, text: str, time: dt.datetime | None) -> None:
    path = write_file(tmp_path / "x.jsonl", json.dumps({"time": text}))
    (row,) = rows(path)
    assert time_of(row, Layout("time", None)) == time


def test_empty_file_has_no_events(tmp_path: Path) -> None:
    assert list(events(write_file(tmp_path / "x.csv", ""))) == []


def test_invalid_input_is_rejected_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not JSON lines, CSV or an access log"):
        list(rows(write_file(tmp_path / "x.txt", "hello\n")))
    with pytest.raises(ConfigurationError, match=r"--by d: .* it has a, b"):
        layout(write_file(tmp_path / "x.csv", "a,b\n1,2\n"), "d")
