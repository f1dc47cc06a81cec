"""Certificates for tests: an authority, signed certificates, and revocation lists."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
CA_USAGE = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Certified(NamedTuple):
    """A certificate and its key."""

    certificate: x509.Certificate
    key: Any

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        hidden = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        pem: bytes = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden)
        return pem.decode()

    def pkcs12(self, password: str) -> bytes:
        hidden = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(b"me", self.key, self.certificate, None, hidden)


def trusting_pkcs12(certificate: x509.Certificate, password: str) -> bytes:
    hidden = BestAvailableEncryption(password.encode())
    return pkcs12.serialize_key_and_certificates(None, None, None, [certificate], hidden)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def authority(name: str = "authority") -> Certified:
    key = ec.generate_private_key(ec.SECP256R1())
    made = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(CA_USAGE, critical=True)  # from Python 3.13 on, `ssl.create_default_context` requires it
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Certified(made, key)


def signed(by: Certified, name: str, valid: datetime.timedelta = 30 * DAY) -> Certified:
    key = ec.generate_private_key(ec.SECP256R1())
    made = (
        _builder(name, _common_name(by), key.public_key(), valid)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.key.public_key()), critical=False)
        .sign(by.key, hashes.SHA256())
    )
    return Certified(made, key)


def revoking(by: Certified, *revoked: Certified) -> str:
    builder = x509.CertificateRevocationListBuilder(_name(_common_name(by)), NOW - DAY, NOW + DAY)
    for one in revoked:
        entry = x509.RevokedCertificateBuilder(one.certificate.serial_number, NOW - DAY).build()
        builder = builder.add_revoked_certificate(entry)
    return builder.sign(by.key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def _common_name(of: Certified) -> str:
    return str(of.certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value)


def _builder(name: str, issuer: str, key: Any, valid: datetime.timedelta = 30 * DAY) -> x509.CertificateBuilder:
    return x509.CertificateBuilder(
        _name(issuer), _name(name), key, x509.random_serial_number(), NOW - 2 * DAY, NOW + valid
    )


def localhost_server(directory: Path) -> ssl.SSLContext:
    """Return the TLS context of a server on localhost. The authority's certificate is written to `ca.pem`."""
    issuer = authority()
    certified = signed(issuer, "localhost")
    (directory / "server.pem").write_text(certified.key_pem() + certified.pem)
    (directory / "ca.pem").write_text(issuer.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem")
    return context
