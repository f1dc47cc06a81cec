"""`ottla dump-log`: segments, indexes, producer snapshots and their errors."""

from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.config.topic import LogConfig
from ottla.coordinator.transaction.transaction import Transaction
from ottla.coordinator.transaction.transaction_records import tombstone, transaction_record
from ottla.model import TopicPartition
from ottla.records.builder import BatchBuilder
from ottla.storage.recovery import open_log

NOW = 1_700_000_000_000


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    """A closed segment of three batches, and the files beside it."""
    log = open_log(tmp_path / "t-0", TopicPartition("t", 0), LogConfig(index_interval_bytes=1))
    for i in range(3):
        builder = BatchBuilder(bytearray(500))
        builder.append(NOW + i, b"key-%d" % i if i else None, b"value", [("h", b"1"), ("i", None)])
        data = builder.close(producer_id=9, producer_epoch=0, base_sequence=i)
        log.append(memoryview(bytearray(data)), leader_epoch=2)
    log.close()
    return log.dir / "00000000000000000000.log"


def dump(capsys: pytest.CaptureFixture[str], *arguments: Path | str) -> tuple[int, list[str], str]:
    code = main(["dump-log", *map(str, arguments)])
    result = capsys.readouterr()
    return code, result.out.splitlines(), result.err


def test_log_is_printed_as_by_kafka_dump_log(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines, _ = dump(capsys, "--print-data-log", "--files", segment)
    assert code == 0
    assert lines[:2] == [f"Dumping {segment}", "Log starting offset: 0"]
    assert lines[2].startswith(
        "baseOffset: 0 lastOffset: 0 count: 1 baseSequence: 0 lastSequence: 0 producerId: 9 producerEpoch: 0 "
        "partitionLeaderEpoch: 2 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty "
        f"position: 0 CreateTime: {NOW} size: "
    )
    assert lines[2].endswith("isvalid: true")
    assert (
        lines[3]
        == f"| offset: 0 CreateTime: {NOW} keySize: -1 valueSize: 5 sequence: 0 headerKeys: [h,i] payload: value"
    )
    assert lines[5].endswith("headerKeys: [h,i] key: key-1 payload: value")


def test_records_are_omitted_without_deep_iteration(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(dump(capsys, "--files", segment)[1]) == 5
    assert len(dump(capsys, "--deep-iteration", "--files", segment)[1]) == 8
    _, lines, _ = dump(capsys, "--print-data-log", "--skip-record-metadata", "--files", segment)
    assert lines[5] == "| key: key-1 payload: value"


def test_transaction_records_are_printed_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = open_log(tmp_path / "s-0", TopicPartition("s", 0), LogConfig())
    builder = BatchBuilder(bytearray(500))
    for record in (transaction_record(Transaction("tx", 7, 1, update_ms=5), 0), tombstone("tx")):
        builder.append(NOW, record.key, record.value)
    log.append(memoryview(bytearray(builder.close())), leader_epoch=0, origin_client=False)
    log.close()
    path = log.dir / "00000000000000000000.log"
    _, lines, _ = dump(capsys, "--transaction-log-decoder", "--skip-record-metadata", "--files", path)
    key = '| key: {"type":"0","data":{"transactionalId":"tx"}}'
    assert lines[3].startswith(key + ' payload: {"version":"0","data":{"producerId":7,"producerEpoch":1,')
    assert lines[4] == key + " payload: <DELETE>"


def test_several_files_of_different_types_are_printed(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [segment.with_suffix(s) for s in (".index", ".timeindex")] + [segment.with_name(f"{3:020d}.snapshot")]
    code, lines, errors = dump(capsys, "--files", ",".join(map(str, names)))
    assert (code, errors) == (0, "")
    assert "offset: 2 position: " in "\n".join(lines)
    assert f"timestamp: {NOW + 2} offset: 2" in lines
    assert lines[-1].startswith(
        "producerId: 9 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong"
    )


def test_index_mismatch_is_reported_on_stderr(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = segment.with_suffix(".index")
    data = bytearray(index.read_bytes())
    data[3] ^= 1
    index.write_bytes(data)
    code, _, errors = dump(capsys, "--verify-index-only", "--files", index)
    assert code == 0
    assert f"Mismatches in :{index}" in errors
    assert "  Index offset: 0, log offset: 1" in errors


def test_partial_record_at_the_end_is_reported(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with segment.open("ab") as file:
        file.write(b"torn")
    assert dump(capsys, "--files", segment)[1][-1] == f"Found 4 invalid bytes at the end of {segment.name}"


def test_malformed_remote_log_metadata_is_skipped(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result, lines, _ = dump(capsys, "--remote-log-metadata-decoder", "--files", segment)
    assert result == 0
    assert any("Error at offset 0, skipping." in line for line in lines)


def test_dump_does_not_modify_files(segment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {p.name: (p.stat().st_size, p.stat().st_mtime_ns) for p in segment.parent.iterdir()}
    names = [str(segment.with_suffix(s)) for s in (".log", ".index", ".timeindex")]
    dump(capsys, "--index-sanity-check", "--files", ",".join(names))
    dump(capsys, "--print-data-log", "--files", ",".join(names))
    assert {p.name: (p.stat().st_size, p.stat().st_mtime_ns) for p in segment.parent.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("absent.log", 1, "there is no file"),
        ("leader-epoch-checkpoint", 0, "Ignoring unknown file"),
        ("name.log", 1, "is the offset of its first record"),
    ],
)
def test_file_that_cannot_be_dumped_is_reported_in_one_line(
    segment: Path, capsys: pytest.CaptureFixture[str], name: str, code: int, message: str
) -> None:
    (segment.parent / "name.log").write_bytes(b"x")
    result, _, errors = dump(capsys, "--files", segment.parent / name)
    assert result == code
    assert message in errors
    assert len(errors.splitlines()) == 1
