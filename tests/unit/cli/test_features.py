"""`ottla features`: the feature levels of Apache Kafka's releases.

The expected texts are those of Kafka 4.3.1's tool.
"""

from __future__ import annotations

import json

import pytest

from ottla import Broker
from ottla.cli import feature_releases
from ottla.cli.main import main

AT = ("features", "--bootstrap-server", "127.0.0.1:1")


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ((), ["metadata.version=30 (4.3-IV0)", *["1", "2", "1", "1", "1", "1"]]),
        (("--release-version", "4.0"), ["metadata.version=25 (4.0)", *["1", "2", "1", "0", "0", "0"]]),
        (("--release-version", "4.2-IV0"), ["metadata.version=28 (4.2-IV0)", *["1", "2", "1", "1", "1", "0"]]),
        (("--release-version", "3.8"), ["metadata.version=20 (3.8)", *["0", "0", "0", "0", "0", "0"]]),
    ],
)
def test_version_mapping_prints_the_levels_of_a_release(
    arguments: tuple[str, ...], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*AT, "version-mapping", *arguments]) == 0
    first, *others = capsys.readouterr().out.splitlines()
    names = ("kraft", "transaction", "group", "eligible.leader.replicas", "share", "streams")
    assert [first, *others] == [
        lines[0],
        *(f"{name}.version={level}" for name, level in zip(names, lines[1:], strict=True)),
    ]


def test_dependencies_of_features_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    features = ("eligible.leader.replicas.version=1", "metadata.version=20", "transaction.version=2")
    words = [word for feature in features for word in ("--feature", feature)]
    assert main([*AT, "feature-dependencies", *words]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "eligible.leader.replicas.version=1 requires:",
        "    metadata.version=23 (4.0-IV1)",
        "metadata.version=20 (3.8-IV0) has no dependencies.",
        "transaction.version=2 has no dependencies.",
    ]


def test_version_mapping_prints_levels_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*AT, "version-mapping", "--release-version", "3.9", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kraft.version"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("version-mapping", "--release-version", "9.9"), "Unknown metadata.version '9.9'. Supported metadata.version"),
        (("version-mapping", "--release-version", "4.4"), "Unknown metadata.version '4.4'."),
        (("feature-dependencies", "--feature", "metadata.version=99"), "Unknown metadata.version 99"),
        (("feature-dependencies", "--feature", "x=1"), "Unknown feature: x"),
        (("feature-dependencies", "--feature", "transaction.version=9"), "No feature:transaction.version with feature"),
        (("feature-dependencies", "--feature", "transaction.version"), "expected NAME=LEVEL"),
        (("upgrade", "--release-version", "4.3", "--feature", "a=1"), "Can not specify `release-version` with other"),
        (("upgrade", "--metadata", "3.9", "--feature", "metadata.version=3"), "was specified more than once"),
        (("downgrade",), "You must specify at least one feature to downgrade"),
    ],
)
def test_wrong_usage_is_rejected(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*AT, *arguments]) == 1
    assert message in capsys.readouterr().err


def test_upgrade_and_downgrade_to_a_release_update_its_features(
    ottla_broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("features", "--bootstrap-server", ottla_broker.bootstrap_servers)
    for action, names in (
        ("upgrade", {"metadata.version", "kraft.version", "transaction.version", "group.version"}),
        ("downgrade", {"metadata.version", *feature_releases.FEATURES}),
    ):
        assert main([*at, action, "--release-version", "4.0", "--dry-run"]) == 1  # Ottla has no metadata.version
        lines = capsys.readouterr().out.splitlines()
        assert {line.split()[3] for line in lines} == names
        assert f"Could not {action} metadata.version to 25. The update failed for all features" in "".join(lines)
