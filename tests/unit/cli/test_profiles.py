"""Default connections of all tools: profiles, OTTLA_BOOTSTRAP_SERVERS and their precedence."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla import Broker
from ottla.cli.framework import profiles
from ottla.cli.main import main
from ottla.errors import ConfigurationError

FILE = """
default = "local"
[profiles.local]
bootstrap.servers = "localhost:9092"
[profiles.production]
"bootstrap.servers" = ["a:1", "b:2"]
"security.protocol" = "SASL_SSL"
"check.crcs" = false
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "ottla" / "config.toml"
    file.parent.mkdir()
    file.write_text(FILE)
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_default_profile_applies_until_another_one_is_chosen(environment: dict[str, str]) -> None:
    production = {"bootstrap.servers": "a:1,b:2", "security.protocol": "SASL_SSL", "check.crcs": "false"}
    assert profiles.has_connection(environment)
    assert profiles.configs(None, environment) == {"bootstrap.servers": "localhost:9092"}
    assert profiles.configs("production", environment) == production
    assert profiles.configs(None, {**environment, "OTTLA_PROFILE": "production"}) == production


def test_servers_of_the_environment_replace_those_of_the_default_profile(environment: dict[str, str]) -> None:
    environment["OTTLA_BOOTSTRAP_SERVERS"] = "c:3"
    assert profiles.configs(None, environment) == {"bootstrap.servers": "c:3"}
    assert profiles.configs("local", environment) == {"bootstrap.servers": "localhost:9092"}


def test_unknown_profile_and_unreadable_file_are_rejected(environment: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no profile 'producton'; did you mean production?"):
        profiles.configs("producton", environment)
    with pytest.raises(ConfigurationError, match="there is no file"):
        profiles.configs("local", {"OTTLA_CONFIG": str(tmp_path / "none.toml")})
    broken = tmp_path / "broken.toml"
    broken.write_text("default =")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        profiles.configs(None, {"OTTLA_CONFIG": str(broken)})


def test_connection_is_empty_without_file_and_environment(tmp_path: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert not profiles.has_connection(environment)
    assert profiles.configs(None, environment) == {}


def test_missing_bootstrap_server_error_names_the_environment_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OTTLA_CONFIG", str(tmp_path / "none.toml"))
    monkeypatch.delenv("OTTLA_BOOTSTRAP_SERVERS", raising=False)
    with pytest.raises(SystemExit):
        main(["topics", "--list"])
    assert "is required, or OTTLA_BOOTSTRAP_SERVERS in the environment" in capsys.readouterr().err


def test_command_line_takes_precedence_over_profile_and_environment(
    ottla_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[profiles.here]\n"bootstrap.servers" = "{ottla_broker.bootstrap_servers}"\n')
    monkeypatch.setenv("OTTLA_CONFIG", str(file))
    assert main(["cluster", "cluster-id"]) == 1
    assert "bootstrap" in capsys.readouterr().err
    assert main(["cluster", "cluster-id", "--profile", "here"]) == 0
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", "127.0.0.1:1")
    assert main(["cluster", "cluster-id", "--bootstrap-server", ottla_broker.bootstrap_servers]) == 0
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVERS", ottla_broker.bootstrap_servers)
    assert main(["topics", "--list"]) == 0
