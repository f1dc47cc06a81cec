from __future__ import annotations

import asyncio
import datetime
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography")

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_der_private_key
from tests.unit.net.certificates import Certified, authority, revoking, signed, trusting_pkcs12

from ottla.config.client import ClientConfig
from ottla.errors import ConfigurationError, SslAuthenticationError
from ottla.net.client.channel import Channel
from ottla.net.client.connect import SocketOptions
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.security.tls.contexts import client_context, openssl_name, server_context
from ottla.security.tls.distinguished_name import expiry_of
from ottla.security.tls.jks import read_jks, reveal_key

STORES = Path(__file__).parent / "stores"

CA = authority()
SERVER = signed(CA, "localhost")
CLIENT = signed(CA, "client")


def config(**options: Any) -> ClientConfig:
    return ClientConfig.from_keywords(bootstrap_servers="localhost:9092", security_protocol="SSL", **options)


def in_file(folder: Path, content: str | bytes, name: str = "file") -> str:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def serve_one(listener: socket.socket, context: ssl.SSLContext) -> None:
    """Answer one heartbeat of one client. Blocking, as asyncio's servers disconnect without a TLS alert."""
    sock, _ = listener.accept()
    try:
        with context.wrap_socket(sock, server_side=True) as peer:
            request = peer.recv(1000)
            peer.sendall(b"\0\0\0\6" + request[8:12] + b"\0\0")
            peer.recv(1)
    except OSError:
        sock.close()


def handshake(
    folder: Path,
    options: dict[str, Any],
    *,
    host: str = "localhost",
    client_ca: Certified | None = None,
    server: Certified = SERVER,
    newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
) -> tuple[str, str]:
    """Send a request to a TLS server, and return the TLS version and cipher.

    `client_ca` signs the client certificates that the server accepts.
    """
    made = config(**options)
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.maximum_version = newest
    server_context.load_cert_chain(in_file(folder, server.key_pem() + server.pem, "server.pem"))
    if client_ca is not None:
        server_context.verify_mode = ssl.CERT_REQUIRED
        server_context.load_verify_locations(cadata=client_ca.pem)
    context = client_context(made)

    async def exchange() -> tuple[str, str]:
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        thread = threading.Thread(target=serve_one, args=(listener, server_context))
        thread.start()
        tls = SocketOptions(ssl_context=context, ssl_check_hostname=made.checks_hostname)
        channel = Channel(asyncio.get_running_loop(), host, port, client_id="test", options=tls)
        try:
            await channel.connect()
            await channel.send(HeartbeatRequest(), 0, 10)
            actual = channel._socket
            assert isinstance(actual, ssl.SSLSocket)
            return str(actual.version()), (actual.cipher() or ("",))[0]
        finally:
            channel.close()
            thread.join(5)
            listener.close()

    return asyncio.run(exchange())


# Trust stores

TRUST_STORES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "PEM file": lambda f: {"ssl_truststore_location": in_file(f, CA.pem), "ssl_truststore_type": "PEM"},
    "PEM text": lambda f: {"ssl_truststore_certificates": f"{CA.pem}\n{SERVER.pem}", "ssl_truststore_type": "pem"},
    "PKCS12": lambda f: {
        "ssl_truststore_location": in_file(f, trusting_pkcs12(CA.certificate, "pw")),
        "ssl_truststore_type": "PKCS12",
        "ssl_truststore_password": "pw",
    },
    "PKCS12 called JKS": lambda f: {
        "ssl_truststore_location": in_file(f, trusting_pkcs12(CA.certificate, "pw")),
        "ssl_truststore_password": "pw",
    },
    "PEM file called JKS": lambda f: {"ssl_truststore_location": in_file(f, f"Subject: CN=CA\n{CA.pem}")},
    "cafile": lambda f: {"ssl_cafile": in_file(f, CA.pem)},
}


@pytest.mark.option(
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "ssl.truststore.certificates",
    "ssl.cafile",
)
@pytest.mark.parametrize("kind", TRUST_STORES)
def test_broker_is_trusted_with_each_kind_of_trust_store(tmp_path: Path, kind: str) -> None:
    assert handshake(tmp_path, TRUST_STORES[kind](tmp_path))[0] == "TLSv1.3"


def java_authority() -> Certified:
    """Return the authority in the stores that keytool wrote."""
    hidden, (certificate,) = read_jks((STORES / "key.jks").read_bytes(), "storepass").keys[0]
    key = load_der_private_key(reveal_key(hidden, "keypass1"), None)
    return Certified(x509.load_der_x509_certificate(certificate), key)


@pytest.mark.parametrize(("end", "key_password"), [("jks", "keypass1"), ("p12", None)])
def test_java_key_and_trust_stores_authenticate_both_sides(tmp_path: Path, end: str, key_password: str | None) -> None:
    options = {
        "ssl_truststore_location": str(STORES / f"trust.{end}"),
        "ssl_truststore_password": "trustpass",
        "ssl_keystore_location": str(STORES / f"key.{end}"),
        "ssl_keystore_password": "storepass",
        "ssl_key_password": key_password,
    }
    handshake(tmp_path, options, server=signed(java_authority(), "localhost"), client_ca=java_authority())


def test_untrusted_broker_certificate_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(SslAuthenticationError, match=r"ssl\.truststore\.location") as error:
        handshake(tmp_path, {"ssl_truststore_certificates": authority("other").pem, "ssl_truststore_type": "PEM"})
    assert not error.value.retriable


@pytest.mark.option("ssl.endpoint.identification.algorithm", "ssl.check.hostname")
def test_certificate_for_another_host_is_rejected_unless_verification_is_off(tmp_path: Path) -> None:
    trusting = {"ssl_truststore_certificates": CA.pem, "ssl_truststore_type": "PEM"}
    with pytest.raises(SslAuthenticationError, match=r"ssl\.endpoint\.identification\.algorithm"):
        handshake(tmp_path, trusting, host="127.0.0.1")
    handshake(tmp_path, {**trusting, "ssl_endpoint_identification_algorithm": ""}, host="127.0.0.1")
    handshake(tmp_path, {**trusting, "ssl_check_hostname": False}, host="127.0.0.1")


@pytest.mark.option("ssl.crlfile")
def test_revoked_certificate_is_rejected(tmp_path: Path) -> None:
    trusting = {"ssl_cafile": in_file(tmp_path, CA.pem)}
    handshake(tmp_path, {**trusting, "ssl_crlfile": in_file(tmp_path, revoking(CA), "none")})
    with pytest.raises(SslAuthenticationError, match="revoked"):
        handshake(tmp_path, {**trusting, "ssl_crlfile": in_file(tmp_path, revoking(CA, SERVER), "one")})


# Key stores

KEY_STORES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "PEM file": lambda f: {
        "ssl_keystore_location": in_file(f, CLIENT.key_pem("pw") + CLIENT.pem, "me"),
        "ssl_keystore_type": "PEM",
        "ssl_key_password": "pw",
    },
    "PEM file called JKS": lambda f: {
        "ssl_keystore_location": in_file(f, CLIENT.key_pem("pw") + CLIENT.pem, "me"),
        "ssl_key_password": "pw",
    },
    "PEM text": lambda f: {
        "ssl_keystore_key": CLIENT.key_pem(),
        "ssl_keystore_certificate_chain": CLIENT.pem,
        "ssl_keystore_type": "PEM",
    },
    "PKCS12": lambda f: {
        "ssl_keystore_location": in_file(f, CLIENT.pkcs12("pw"), "me"),
        "ssl_keystore_type": "PKCS12",
        "ssl_keystore_password": "pw",
    },
    "certfile": lambda f: {
        "ssl_certfile": in_file(f, CLIENT.pem, "cert"),
        "ssl_keyfile": in_file(f, CLIENT.key_pem("pw"), "key"),
        "ssl_password": "pw",
    },
}


@pytest.mark.option(
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.certfile",
    "ssl.keyfile",
    "ssl.password",
)
@pytest.mark.parametrize("kind", KEY_STORES)
def test_client_certificate_of_each_kind_of_key_store_is_sent(tmp_path: Path, kind: str) -> None:
    handshake(tmp_path, {"ssl_cafile": in_file(tmp_path, CA.pem), **KEY_STORES[kind](tmp_path)}, client_ca=CA)


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_untrusted_client_certificate_names_the_option(tmp_path: Path, newest: ssl.TLSVersion) -> None:
    with pytest.raises(SslAuthenticationError, match=r"\(see ssl\."):
        handshake(tmp_path, {"ssl_cafile": in_file(tmp_path, CA.pem)}, client_ca=CA, newest=newest)


# Versions and ciphers


@pytest.mark.option("ssl.enabled.protocols", "ssl.protocol")
def test_only_enabled_tls_versions_are_negotiated(tmp_path: Path) -> None:
    trusting = {"ssl_cafile": in_file(tmp_path, CA.pem)}
    assert handshake(tmp_path, {**trusting, "ssl_enabled_protocols": "TLSv1.2"})[0] == "TLSv1.2"
    assert handshake(tmp_path, {**trusting, "ssl_protocol": "TLSv1.2"})[0] == "TLSv1.2"
    with pytest.raises(SslAuthenticationError):
        handshake(tmp_path, {**trusting, "ssl_enabled_protocols": ["TLSv1.3"]}, newest=ssl.TLSVersion.TLSv1_2)
    with pytest.raises(ConfigurationError, match=r"ssl\.enabled\.protocols"):
        client_context(config(ssl_enabled_protocols="TLSv1.3", ssl_protocol="TLSv1.2"))


@pytest.mark.option("ssl.cipher.suites", "ssl.ciphers")
@pytest.mark.parametrize(
    "suite", ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"]
)
def test_cipher_suites_are_configured_by_java_names(tmp_path: Path, suite: str) -> None:
    options = {"ssl_cafile": in_file(tmp_path, CA.pem), "ssl_cipher_suites": suite}
    assert handshake(tmp_path, options) == ("TLSv1.2", openssl_name(suite))
    assert handshake(tmp_path, {"ssl_cafile": options["ssl_cafile"], "ssl_ciphers": openssl_name(suite)})


@pytest.mark.parametrize(
    ("java_name", "expected"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "DHE-RSA-CHACHA20-POLY1305"),
        ("ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES128-SHA"),
    ],
)
def test_java_cipher_suite_is_mapped_to_its_openssl_name(java_name: str, expected: str) -> None:
    assert openssl_name(java_name) == expected


def test_tls_1_3_cipher_suites_alone_disable_older_versions() -> None:
    context = client_context(config(ssl_cipher_suites="TLS_AES_128_GCM_SHA256"))
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3


# Invalid options


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"ssl_truststore_location": "/nowhere"}, r"ssl\.truststore\.location: /nowhere: No such file"),
        (
            {"ssl_truststore_location": "{trust.jks}", "ssl_truststore_password": "no"},
            r"ssl\.truststore\.password.*password",
        ),
        ({"ssl_truststore_location": "{trust.p12}", "ssl_truststore_password": "no"}, r"ssl\.truststore\.password"),
        (
            {"ssl_truststore_location": "{me}", "ssl_truststore_type": "PEM"},
            r"ssl\.truststore\.location.*no certificate",
        ),
        ({"ssl_truststore_certificates": "x"}, r"ssl\.truststore\.type is JKS"),
        ({"ssl_keystore_location": "{key.jks}"}, r"ssl\.keystore\.password"),
        ({"ssl_keystore_location": "{key.jks}", "ssl_keystore_password": "no"}, r"ssl\.keystore\.password.*wrong"),
        ({"ssl_keystore_location": "{key.jks}", "ssl_keystore_password": "storepass"}, r"ssl\.key\.password.*wrong"),
        ({"ssl_keystore_location": "{key.p12}", "ssl_keystore_password": "no"}, r"ssl\.keystore\.password"),
        ({"ssl_keystore_location": "{trust.jks}", "ssl_keystore_password": "trustpass"}, "a private key and its"),
        ({"ssl_keystore_key": "x", "ssl_keystore_type": "PEM"}, r"ssl\.keystore\.key: a private key"),
        ({"ssl_cafile": "{me}"}, r"ssl\.cafile"),
        ({"ssl_crlfile": "/nowhere"}, r"ssl\.crlfile"),
        ({"ssl_cipher_suites": "TLS_NONSENSE"}, r"ssl\.cipher\.suites"),
        ({"ssl_ciphers": "nonsense"}, r"ssl\.ciphers"),
        ({"ssl_keystore_type": "BKS"}, r"ssl\.keystore\.type: 'BKS'"),
        ({"ssl_endpoint_identification_algorithm": "ldaps"}, r"ssl\.endpoint"),
    ],
)
def test_error_names_the_option(options: dict[str, str], named: str) -> None:
    actual = {key: value.replace("{me}", __file__) for key, value in options.items()}
    actual = {k: str(STORES / v[1:-1]) if v.startswith("{") else v for k, v in actual.items()}
    with pytest.raises(ConfigurationError, match=named):
        client_context(config(**actual))


def test_wrong_password_of_a_pem_key_is_reported(tmp_path: Path) -> None:
    pem = in_file(tmp_path, CLIENT.key_pem("right") + CLIENT.pem)
    for password in ("wrong", None):
        with pytest.raises(ConfigurationError, match=r"ssl\.key\.password.*the password is wrong"):
            client_context(config(ssl_keystore_location=pem, ssl_keystore_type="PEM", ssl_key_password=password))
        with pytest.raises(ConfigurationError, match=r"ssl\.password.*the password is wrong"):
            client_context(config(ssl_certfile=pem, ssl_password=password))


def test_pkcs12_without_cryptography_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'ottla\[tls\]'"):
        client_context(config(ssl_truststore_location=str(STORES / "trust.p12"), ssl_truststore_password="trustpass"))


@pytest.mark.option("ssl.context")
def test_ssl_context_option_is_used_unchanged() -> None:
    own_context = ssl.create_default_context()
    assert client_context(config(ssl_context=own_context, ssl_truststore_location="/nowhere")) is own_context


def test_secrets_are_not_shown() -> None:
    shown = repr(config(ssl_key_password="hush", ssl_keystore_key="hush", ssl_keystore_password="hush"))
    assert "hush" not in shown


@pytest.mark.parametrize(
    ("days", "text"),
    [
        (-1, "The certificate of CN=broker expired at "),
        (3, "The certificate of CN=broker expires soon, at "),
        (20, ""),
    ],
)
def test_listener_warns_of_a_certificate_that_expires(days: int, text: str, caplog: pytest.LogCaptureFixture) -> None:
    own = signed(authority(), "broker", datetime.timedelta(days=days))
    server_context(
        config(
            ssl_keystore_type="PEM",
            ssl_keystore_key=own.key_pem(),
            ssl_keystore_certificate_chain=own.pem,
        )
    )
    assert text in caplog.text
    assert ("certificate" in caplog.text) == bool(text)


def test_expiry_beyond_2049_is_read() -> None:
    own = signed(authority(), "broker", datetime.timedelta(days=40 * 365))
    assert expiry_of(ssl.PEM_cert_to_DER_cert(own.pem)) == own.certificate.not_valid_after_utc
