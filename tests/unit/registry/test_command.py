"""The command `ottla schema-registry`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.errors import ConfigurationError
from ottla_registry.cli.schema_registry import _client_configs, _integer, parse_listener


def test_listener_requires_scheme_host_and_port() -> None:
    assert parse_listener("http://127.0.0.1:8081", "http") == ("127.0.0.1", 8081)
    assert parse_listener("https://[::1]:80/", "https") == ("::1", 80)
    assert parse_listener("http://:8081", "http") == ("0.0.0.0", 8081)
    for text in ("localhost:8081", "http://localhost", "http://a:99999", "http://a:1/path", "https://a:1", ""):
        with pytest.raises(ConfigurationError, match="--listeners"):
            parse_listener(text, "http")


def test_properties_of_confluent_schema_registry_configure_the_clients() -> None:
    file = {
        "kafkastore.bootstrap.servers": "PLAINTEXT://a:1, SASL_SSL://b:2",
        "kafkastore.security.protocol": "SASL_SSL",
        "kafkastore.topic": "_schemas",
        "kafkastore.timeout.ms": "500",
        "host.name": "x",
    }
    assert _client_configs(file) == {"bootstrap.servers": "a:1,b:2", "security.protocol": "SASL_SSL"}
    assert _integer(file, "kafkastore.timeout.ms", 1) == 500
    assert _integer(file, "kafkastore.topic.replication.factor", 3) == 3
    for value in ("x", "0"):
        with pytest.raises(ConfigurationError, match="positive integer"):
            _integer({"n": value}, "n", 1)


def test_command_without_brokers_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from ottla.cli.main import main

    file = tmp_path / "registry.properties"
    file.write_text("kafkastore.topic=x\n")
    assert main(["schema-registry", str(file)]) != 0
    assert "--bootstrap-server is required" in capsys.readouterr().err
    assert main(["schema-registry", "--bootstrap-server", "127.0.0.1:1", "--tls-cert", "x"]) != 0
    assert "must be set together" in capsys.readouterr().err
