from pathlib import Path

from ottla.spark.checkpoints import remove_torn_starts


def test_offsets_that_were_never_renamed_are_removed_where_no_micro_batch_was_begun(tmp_path: Path) -> None:
    torn, begun = (tmp_path / "default" / name / "0" / "offsets" for name in ("torn", "begun"))
    for directory, names in ((torn, [".0.1f3a.tmp", "..0.1f3a.tmp.crc"]), (begun, ["0", ".0.crc", ".1.77ee.tmp"])):
        directory.mkdir(parents=True)
        for name in names:
            (directory / name).touch()
    assert sorted(path.name for path in remove_torn_starts(tmp_path)) == ["..0.1f3a.tmp.crc", ".0.1f3a.tmp"]
    assert not list(torn.iterdir())
    assert len(list(begun.iterdir())) == 3


def test_a_checkpoint_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    assert remove_torn_starts(tmp_path / "none") == []
