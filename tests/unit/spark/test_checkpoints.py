"""Removal of incomplete offset files from checkpoints."""

from pathlib import Path

from ottla.spark.checkpoints import remove_torn_starts


def test_temporary_offset_files_are_removed_if_no_micro_batch_was_started(tmp_path: Path) -> None:
    torn, started = (tmp_path / "default" / name / "0" / "offsets" for name in ("torn", "begun"))
    for directory, names in ((torn, [".0.1f3a.tmp", "..0.1f3a.tmp.crc"]), (started, ["0", ".0.crc", ".1.77ee.tmp"])):
        directory.mkdir(parents=True)
        for name in names:
            (directory / name).touch()
    assert sorted(path.name for path in remove_torn_starts(tmp_path)) == ["..0.1f3a.tmp.crc", ".0.1f3a.tmp"]
    assert not list(torn.iterdir())
    assert len(list(started.iterdir())) == 3


def test_missing_checkpoint_has_no_torn_files(tmp_path: Path) -> None:
    assert remove_torn_starts(tmp_path / "none") == []
