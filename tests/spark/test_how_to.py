"""The pages of docs/how-to about Spark run, in one session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.how_to.pages import PAGES, run_page

import ottla

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PATHS = ('"numbers"', '"checkpoint"', '"payments-checkpoint"', "payments.db")
"""Relative to the directory in which the JVM was started, by an earlier test."""


def test_spark_how_to_pages_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    absolute = {path: path.replace(path.strip('"'), str(tmp_path / path.strip('"'))) for path in PATHS}
    with ottla.Broker() as broker:
        for page in sorted(PAGES.glob("*spark*.md")):
            run_page(page.stem, broker.bootstrap_servers, tmp_path, absolute)
