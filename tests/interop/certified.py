"""Self-signed keys and certificates for TLS tests, made with openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def identity(folder: Path, name: str) -> Path:
    """Return a PEM file with the key and the certificate of `name`, valid for this machine."""
    key, certificate, both = (folder / f"{name}-{part}.pem" for part in ("key", "cert", "both"))
    subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *subject]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    both.write_text(key.read_text() + certificate.read_text())
    return both


@pytest.fixture(scope="session")
def identities(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Key and certificate in one PEM file for each name."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificates, is missing")
    folder = tmp_path_factory.mktemp("identities")
    return {name: identity(folder, name) for name in ("server", "broker", "client", "stranger")}
