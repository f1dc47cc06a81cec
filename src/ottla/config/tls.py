"""The options of TLS: Kafka's `SslConfigs`, and kafka-python's shorter ones for PEM files. `security/tls/contexts`
uses them.
"""

from __future__ import annotations

from typing import Any, Final

from ottla.config.options import Config, Option, anything, boolean, nullable, one_of, text, words

NO_EFFECT: Final = {
    "security.providers": "OpenSSL provides TLS, not Java",
    "ssl.provider": "OpenSSL provides TLS, not Java",
    "ssl.keymanager.algorithm": "OpenSSL provides TLS, not Java",
    "ssl.trustmanager.algorithm": "OpenSSL provides TLS, not Java",
    "ssl.secure.random.implementation": "OpenSSL provides TLS, not Java",
}
"""Accepted options of Java's TLS without effect, and the reasons."""
STORES: Final = ("JKS", "PKCS12", "PEM")
PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")


def identification(value: Any) -> str:
    """Parse https or an empty text."""
    word = "" if value is None else str(value).strip().lower()
    if word not in ("", "https"):
        raise ValueError("expected https or an empty text")
    return word


class SslConfig(Config, no_effect=NO_EFFECT):
    """Encryption, trusted authorities and own certificate: Kafka's options, the same for brokers and clients."""

    ssl_truststore_location: Final = Option(
        None,
        nullable(text),
        "Trust store file with the certificates of the trusted certificate authorities; ssl.truststore.certificates "
        "takes precedence. Without trusted certificates in any option, those of the system are used.",
    )
    ssl_truststore_password: Final = Option(
        None,
        nullable(text),
        "Password of the trust store, if it is JKS or PKCS12; PEM files have none. Not set: a JKS file is read "
        "without checking its integrity.",
    )
    ssl_truststore_type: Final = Option(
        "JKS",
        one_of(*STORES),
        "Type of the trust store: PEM, JKS or PKCS12. With JKS or PKCS12, the actual type of a file is recognized by"
        " its content; ssl.truststore.certificates requires PEM.",
    )
    ssl_truststore_certificates: Final = Option(
        None, nullable(text), "Trusted certificates as PEM text, instead of a file; requires ssl.truststore.type=PEM."
    )
    ssl_keystore_location: Final = Option(
        None,
        nullable(text),
        "Key store file with the private key and the certificate chain with which to authenticate; ssl.keystore.key "
        "takes precedence.",
    )
    ssl_keystore_password: Final = Option(
        None, nullable(text), "Password of the key store, which JKS and PKCS12 require; PEM files have none."
    )
    ssl_keystore_type: Final = Option(
        "JKS",
        one_of(*STORES),
        "Type of the key store: PEM, JKS or PKCS12. With JKS or PKCS12, the actual type of a file is recognized by "
        "its content; ssl.keystore.key and ssl.keystore.certificate.chain require PEM.",
    )
    ssl_keystore_key: Final = Option(
        None,
        nullable(text),
        "Private key as PEM text (PKCS#8), instead of a key store file; requires ssl.keystore.certificate.chain and "
        "ssl.keystore.type=PEM.",
    )
    ssl_keystore_certificate_chain: Final = Option(
        None,
        nullable(text),
        "Certificate chain as PEM text, beginning with the certificate of the key in ssl.keystore.key, which it "
        "requires.",
    )
    ssl_key_password: Final = Option(
        None,
        nullable(text),
        "Password of the private key in a PEM or JKS key store or in ssl.keystore.key. Not set: JKS uses "
        "ssl.keystore.password, and a PEM key must not be encrypted.",
    )
    ssl_endpoint_identification_algorithm: Final = Option(
        "https",
        identification,
        "https: the certificate of the broker that is connected to must match its host name; empty: its host name is"
        " not verified.",
    )
    ssl_enabled_protocols: Option[tuple[str, ...]] = Option(
        PROTOCOLS,
        words(*PROTOCOLS),
        "Enabled TLS versions, TLSv1.2 and TLSv1.3, separated by commas; of these, only those up to ssl.protocol are"
        " used.",
    )
    ssl_protocol: Final = Option(
        "TLSv1.3",
        one_of(*PROTOCOLS, "TLS"),
        "Newest TLS version to use among ssl.enabled.protocols: TLSv1.2 or TLSv1.3; TLS means TLSv1.3.",
    )
    ssl_cipher_suites: Option[tuple[str, ...]] = Option(
        (),
        words(),
        "Cipher suites, by their names in Java or OpenSSL; empty: OpenSSL's defaults. If the list has any suite of "
        "TLS 1.3, all of that version are enabled, otherwise TLS 1.3 is disabled; if it has only such suites, TLS "
        "1.2 is disabled.",
    )


class TlsConfig(SslConfig):
    """The TLS options of clients: those of Kafka and of kafka-python."""

    ssl_context: Final = Option(
        None,
        anything,
        "An ssl.SSLContext for connections, which replaces the other ssl configs; None: a context is made from them. "
        "If its check_hostname is False, ssl.check.hostname and ssl.endpoint.identification.algorithm still decide "
        "whether the host name is sent to the broker (SNI).",
    )
    ssl_check_hostname: Final = Option(
        True,
        boolean,
        "Option of kafka-python: False is the same as an empty ssl.endpoint.identification.algorithm; with True, "
        "that config decides.",
    )
    ssl_cafile: Final = Option(
        None,
        nullable(text),
        "Option of kafka-python: PEM file with the trusted certificates. Ignored if ssl.truststore.certificates or "
        "ssl.truststore.location is set.",
    )
    ssl_certfile: Final = Option(
        None,
        nullable(text),
        "Option of kafka-python: PEM file with the client's certificate chain. Ignored if ssl.keystore.key or "
        "ssl.keystore.location is set.",
    )
    ssl_keyfile: Final = Option(
        None,
        nullable(text),
        "Option of kafka-python: PEM file with the key of the certificate in ssl.certfile, without which it has no "
        "effect; not set: the key is in the file of ssl.certfile.",
    )
    ssl_password: Final = Option(
        None,
        nullable(text),
        "Option of kafka-python: password of the key in ssl.keyfile or ssl.certfile, if it is encrypted.",
    )
    ssl_crlfile: Final = Option(
        None,
        nullable(text),
        "Option of kafka-python: PEM file with certificate revocation lists. The client rejects a broker's "
        "certificate that is revoked, or whose issuer has no list in the file. Not set: revocation is not checked.",
    )
    ssl_ciphers: Final = Option(
        None,
        nullable(text),
        "Option of kafka-python: cipher suites of TLS 1.2 in OpenSSL's notation; not set: OpenSSL's defaults. Suites"
        " of TLS 1.2 in ssl.cipher.suites take precedence.",
    )

    @property
    def checks_hostname(self) -> bool:
        """Whether a broker's certificate must match its host name."""
        return self.ssl_check_hostname and bool(self.ssl_endpoint_identification_algorithm)
