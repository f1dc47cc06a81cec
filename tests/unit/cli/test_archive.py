from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from ottla.cli.main import main


def test_a_file_that_cannot_be_written_is_reported_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["spark-archive", f"{tmp_path}/absent/o.zip"]) == 1
    output = capsys.readouterr().err
    assert output == f"ottla spark-archive: {tmp_path}/absent/o.zip: cannot be written: No such file or directory\n"
