"""Builds SSLContexts from the ssl configs of Kafka and kafka-python. Stores may be JKS, PKCS12 or PEM files, or PEM
text.

If a store cannot be used, a ConfigurationError names the config. PKCS12 requires the package `cryptography` (`pip
install ottla[tls]`); JKS and PEM do not.
"""

from __future__ import annotations

import logging
import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.config.tls import TlsConfig
from ottla.errors import ConfigurationError
from ottla.security.tls.distinguished_name import expiry_of, subject_of
from ottla.security.tls.jks import MAGIC, read_jks, reveal_key

log = logging.getLogger("ottla.net")

EXPIRY_WARNING: Final = timedelta(days=14)
"""Remaining validity of a listener's certificate below which a warning is logged when it is loaded."""
KEY_BLOCK: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
PEM_BLOCK: Final = b"-----BEGIN "
"""Bytes that every PEM store contains, and no store of another type."""
CERTIFICATE_BLOCK: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
TLS_1_3_SUITES: Final = "TLS_AES_", "TLS_CHACHA20_"


class Identity(NamedTuple):
    """A private key and its certificate chain as PEM, empty if missing. `password`: only used for an encrypted key."""

    key: str
    certificates: str
    password: str | None


def client_context(config: TlsConfig) -> ssl.SSLContext:
    """Return the SSLContext of a client's connections: `ssl_context` if it is set, otherwise a new one for the other
    ssl configs. Raises ConfigurationError if a config is invalid; the error names it.
    """
    if config.ssl_context is not None:
        made: ssl.SSLContext = config.ssl_context
        return made
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.checks_hostname
    _set_versions(context, config)
    _set_ciphers(context, config)
    _trust(context, config)
    _identify(context, config)
    return context


def server_context(config: TlsConfig, client_auth: str = "none") -> ssl.SSLContext:
    """Return the SSLContext of accepted connections. Raises ConfigurationError if a config is missing or invalid; the
    error names it.

    `client_auth`: the config `ssl.client.auth`, which is required, requested (a client certificate is optional), or
    none.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # as in Kafka, clients cannot renegotiate in TLS 1.2, because each time would cost a handshake
    context.options |= ssl.OP_NO_RENEGOTIATION
    _set_versions(context, config)
    _set_ciphers(context, config)
    certificates = _identify(context, config)
    if not certificates:
        raise ConfigurationError(
            "ssl.keystore.location: accepting connections requires a key and certificates; set it, or"
            " ssl.keystore.key and ssl.keystore.certificate.chain"
        )
    if client_auth != "none":
        context.verify_mode = ssl.CERT_REQUIRED if client_auth == "required" else ssl.CERT_OPTIONAL
        _trust(context, config, ssl.Purpose.CLIENT_AUTH)
    _warn_of_expiry(certificates)
    return context


# versions and cipher suites


def _set_versions(context: ssl.SSLContext, config: TlsConfig) -> None:
    enabled = sorted(VERSIONS[name] for name in config.ssl_enabled_protocols)
    newest = VERSIONS.get(config.ssl_protocol, ssl.TLSVersion.TLSv1_3)
    allowed = [version for version in enabled if version <= newest]
    if not allowed:
        raise ConfigurationError("ssl.enabled.protocols: all of them are newer than ssl.protocol")
    context.minimum_version, context.maximum_version = allowed[0], allowed[-1]


def _set_ciphers(context: ssl.SSLContext, config: TlsConfig) -> None:
    if config.ssl_ciphers:
        _take_ciphers(context, config.ssl_ciphers, "ssl.ciphers")
    suites = config.ssl_cipher_suites
    if not suites:
        return
    older = [openssl_name(suite) for suite in suites if not suite.startswith(TLS_1_3_SUITES)]
    # Python cannot select among the cipher suites of TLS 1.3: either all are enabled, or TLS 1.3 is disabled.
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    _take_ciphers(context, ":".join(older), "ssl.cipher.suites")
    if len(older) == len(suites):
        context.maximum_version = ssl.TLSVersion.TLSv1_2


def _take_ciphers(context: ssl.SSLContext, names: str, option: str) -> None:
    try:
        context.set_ciphers(names)
    except ssl.SSLError:
        raise ConfigurationError(f"{option}: OpenSSL supports none of {names}") from None


def openssl_name(suite: str) -> str:
    """Translate Java's name of a TLS 1.2 cipher suite, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, into OpenSSL's.

    Names that do not begin with TLS_ or SSL_ are returned unchanged.
    """
    if not suite.startswith(("TLS_", "SSL_")):
        return suite
    exchange, _, cipher = suite[4:].partition("_WITH_")
    cipher = re.sub(r"(AES|CAMELLIA)_(\d+)", r"\1\2", cipher).replace("_CBC", "")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    parts = [cipher] if exchange == "RSA" else [exchange, cipher]
    return "-".join(parts).replace("_", "-")


# trusted certificates


def _trust(context: ssl.SSLContext, config: TlsConfig, purpose: ssl.Purpose = ssl.Purpose.SERVER_AUTH) -> None:
    if config.ssl_truststore_certificates is not None:
        _need_pem(config.ssl_truststore_type, "ssl.truststore.certificates", "ssl.truststore.type")
        _trust_pem(context, config.ssl_truststore_certificates, "ssl.truststore.certificates")
    elif config.ssl_truststore_location is not None:
        _trust_pem(context, _trusted_of_file(config, config.ssl_truststore_location), "ssl.truststore.location")
    elif config.ssl_cafile is not None:
        _trust_pem(context, _text_of("ssl.cafile", config.ssl_cafile), "ssl.cafile")
    else:
        context.load_default_certs(purpose)
    if config.ssl_crlfile is not None:
        try:
            context.load_verify_locations(config.ssl_crlfile)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"ssl.crlfile: {config.ssl_crlfile}: {error}") from None
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _trusted_of_file(config: TlsConfig, location: str) -> str:
    data = _bytes_of("ssl.truststore.location", location)
    if config.ssl_truststore_type == "PEM" or PEM_BLOCK in data:
        return _text(data)
    password = config.ssl_truststore_password
    if data.startswith(MAGIC):
        with _named("ssl.truststore", location):
            store = read_jks(data, password)
        return _pem(store.trusted + [chain[0] for _, chain in store.keys if chain])
    _, certificates = _open_pkcs12(data, password, "ssl.truststore", location)
    return certificates


def _trust_pem(context: ssl.SSLContext, pem: str, option: str) -> None:
    certificates = CERTIFICATE_BLOCK.findall(pem)
    if not certificates:
        raise ConfigurationError(f"{option} has no certificate")
    # as in Java, every certificate in a trust store is trusted, even if it is not a root
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata="\n".join(certificates))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigurationError(f"{option} has a malformed certificate: {error}") from None


# the private key and its certificates


def _identify(context: ssl.SSLContext, config: TlsConfig) -> str:
    """Load the configured private key into a context. Return its certificates as PEM; empty if none is configured."""
    option, identity = _identity(config)
    if identity is None:
        return ""
    if not identity.key or not identity.certificates:
        raise ConfigurationError(f"{option}: a private key and its certificates are required")
    # without a password callback, OpenSSL would prompt for the password at the terminal
    password = identity.password or ""
    with _private_file(f"{identity.key}\n{identity.certificates}\n") as path:
        try:
            context.load_cert_chain(path, password=lambda: password)
        except (ssl.SSLError, OSError, ValueError) as error:
            why = "the password is wrong" if "ENCRYPTED" in identity.key else str(error)
            at = ("ssl.password" if option == "ssl.certfile" else "ssl.key.password") if why != str(error) else option
            raise ConfigurationError(f"{at}: unusable key: {why}") from None
    return identity.certificates


def _warn_of_expiry(certificates: str) -> None:
    """Log a warning if the first certificate, which is the listener's own one, has expired or will expire soon."""
    der = ssl.PEM_cert_to_DER_cert(CERTIFICATE_BLOCK.findall(certificates)[0])
    try:
        subject, expires = subject_of(der), expiry_of(der)
    except ValueError:
        return  # OpenSSL accepts it
    owner, when, left = subject or "a listener", f"{expires:%F %T}Z", expires - datetime.now(UTC)
    if left < timedelta():
        log.warning("The certificate of %s expired at %s: clients that verify it reject it. Renew it", owner, when)
    elif left < EXPIRY_WARNING:
        log.warning("The certificate of %s expires soon, at %s. Renew it", owner, when)


def _identity(config: TlsConfig) -> tuple[str, Identity | None]:
    """Return the config to name in errors about the identity, and the identity; `("", None)` if none is configured."""
    if config.ssl_keystore_key is not None or config.ssl_keystore_certificate_chain is not None:
        _need_pem(config.ssl_keystore_type, "ssl.keystore.key", "ssl.keystore.type")
        pem = f"{config.ssl_keystore_key or ''}\n{config.ssl_keystore_certificate_chain or ''}"
        return "ssl.keystore.key", _identity_of_pem(pem, config.ssl_key_password)
    if config.ssl_keystore_location is not None:
        return "ssl.keystore.location", _identity_of_file(config, config.ssl_keystore_location)
    if config.ssl_certfile is not None:
        pem = _text_of("ssl.certfile", config.ssl_certfile)
        if config.ssl_keyfile is not None:
            pem = _text_of("ssl.keyfile", config.ssl_keyfile) + "\n" + pem
        return "ssl.certfile", _identity_of_pem(pem, config.ssl_password)
    return "", None


def _identity_of_pem(pem: str, password: str | None) -> Identity:
    key = KEY_BLOCK.search(pem)
    return Identity(key[0] if key else "", "\n".join(CERTIFICATE_BLOCK.findall(pem)), password)


def _identity_of_file(config: TlsConfig, location: str) -> Identity:
    data = _bytes_of("ssl.keystore.location", location)
    if config.ssl_keystore_type == "PEM" or PEM_BLOCK in data:
        return _identity_of_pem(_text(data), config.ssl_key_password)
    password = config.ssl_keystore_password
    if password is None:
        raise ConfigurationError(f"ssl.keystore.password is required for {location}")
    if not data.startswith(MAGIC):
        key, certificates = _open_pkcs12(data, password, "ssl.keystore", location)
        return Identity(key, certificates, None)
    with _named("ssl.keystore", location):
        store = read_jks(data, password)
    if not store.keys:
        return Identity("", "", None)
    hidden, chain = store.keys[0]
    with _named("ssl.keystore", location, password="ssl.key.password"):
        plain = reveal_key(hidden, password if config.ssl_key_password is None else config.ssl_key_password)
    return Identity(_pem_block("PRIVATE KEY", plain), _pem(chain), None)


def _open_pkcs12(data: bytes, password: str | None, store: str, location: str) -> tuple[str, str]:
    """Return the private key (empty if there is none) and the certificates of a PKCS12 store as PEM."""
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
    except ImportError:
        raise ConfigurationError(
            f"{store}.location: {location} is PKCS12, which requires the package cryptography: pip install 'ottla[tls]'"
        ) from None
    try:
        contents: Any = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        wrong = "mac" in str(error).lower()
        with _named(store, location):
            raise ValueError("the password is wrong" if wrong else str(error)) from None
    own = [] if contents.cert is None else [contents.cert]
    certificates = "".join(
        entry.certificate.public_bytes(Encoding.PEM).decode() for entry in [*own, *contents.additional_certs]
    )
    if contents.key is None:
        return "", certificates
    return contents.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(), certificates


# files and PEM


def _need_pem(kind: str, option: str, type_option: str) -> None:
    if kind != "PEM":
        raise ConfigurationError(f"{option} is PEM, but {type_option} is {kind}")


def _bytes_of(option: str, location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{option}: {location}: {error.strerror}") from None


def _text_of(option: str, location: str) -> str:
    return _text(_bytes_of(option, location))


def _text(data: bytes) -> str:
    # a file in another format (DER, a store) has no PEM block, which is reported later
    return data.decode("utf-8", "replace")


def _pem(certificates: list[bytes]) -> str:
    return "".join(_pem_block("CERTIFICATE", der) for der in certificates)


def _pem_block(kind: str, der: bytes) -> str:
    text = ssl.DER_cert_to_PEM_cert(der)
    return text.replace("CERTIFICATE-----", f"{kind}-----")


@contextmanager
def _named(store: str, location: str, password: str | None = None) -> Iterator[None]:
    """Turn a ValueError in the block into a ConfigurationError (context manager).

    The error names the config of a password or of the store's location.
    """
    try:
        yield
    except ValueError as error:
        wrong = "password" in str(error).lower()
        option = (password or f"{store}.password") if wrong else f"{store}.location"
        raise ConfigurationError(f"{option}: {location}: {error}") from None


@contextmanager
def _private_file(content: str) -> Iterator[str]:
    """Yield the path of a temporary file with this content, which only this user can read (context manager).

    It is in memory if the system supports that.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("ottla-key")
        try:
            os.write(descriptor, content.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(content)
        file.flush()
        yield file.name
