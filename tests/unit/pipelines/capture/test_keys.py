"""Changes of tables whose primary key was altered are rejected."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("psycopg")

from ottla.errors import ConfigurationError
from ottla_pipelines.capture.capture import Capture
from ottla_pipelines.capture.pgoutput import Column, Relation
from ottla_pipelines.capture.postgresql import TableSource

ID, CODE = Column("id", 23, -1), Column("code", 25, -1)
TABLE = TableSource(Relation(1, "public", "t", (ID, CODE)), ("id",))


@pytest.mark.parametrize(
    ("columns", "identity"),
    [
        ((ID, CODE), {"code"}),
        ((ID, CODE), {"id", "code"}),
        ((ID._replace(type_oid=25), CODE), {"id"}),
        ((CODE,), ()),  # REPLICA IDENTITY FULL, and a change from before the table had the column of its key
    ],
)
def test_change_with_an_altered_primary_key_is_rejected(columns: tuple[Column, ...], identity: Any) -> None:
    source: Any = SimpleNamespace(primary_key=lambda _: ("id",))
    unused: Any = None
    capture = Capture(source, unused, unused, unused, "shop")
    capture._check_key(TABLE, Relation(1, "public", "t", (CODE, ID), frozenset({"id"})))
    with pytest.raises(ConfigurationError, match=r"--table public.t: the columns of its primary key .* have changed"):
        capture._check_key(TABLE, Relation(1, "public", "t", columns, frozenset(identity)))
