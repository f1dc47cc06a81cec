"""`ottla spark-archive`: errors of the output file."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from ottla.cli.main import main


def test_spark_archive_reports_an_unwritable_file_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["spark-archive", f"{tmp_path}/absent/o.zip"]) == 1
    output = capsys.readouterr().err
    assert output == f"ottla spark-archive: {tmp_path}/absent/o.zip: cannot be written: No such file or directory\n"
