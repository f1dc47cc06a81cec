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
        "Trust store file: certificates of the trusted certificate authorities. Without trusted certificates in any "
        "option, those of the system are used.",
    )
    ssl_truststore_password: Final = Option(None, nullable(text), "Password of the trust store; PEM files have none.")
    ssl_truststore_type: Final = Option(
        "JKS",
        one_of(*STORES),
        "Type of the trust store: PEM, JKS or PKCS12. Files are recognized by their content; "
        "ssl.truststore.certificates requires PEM.",
    )
    ssl_truststore_certificates: Final = Option(
        None, nullable(text), "Trusted certificates as PEM text, instead of a file."
    )
    ssl_keystore_location: Final = Option(
        None, nullable(text), "Key store file: the private key and the certificate chain with which to authenticate."
    )
    ssl_keystore_password: Final = Option(None, nullable(text), "Password of the key store; PEM files have none.")
    ssl_keystore_type: Final = Option(
        "JKS",
        one_of(*STORES),
        "Type of the key store: PEM, JKS or PKCS12. Files are recognized by their content; ssl.keystore.key and "
        "ssl.keystore.certificate.chain require PEM.",
    )
    ssl_keystore_key: Final = Option(
        None, nullable(text), "Private key as PEM text (PKCS#8), instead of a key store file."
    )
    ssl_keystore_certificate_chain: Final = Option(
        None,
        nullable(text),
        "Certificate chain as PEM text, beginning with the certificate of the key in ssl.keystore.key.",
    )
    ssl_key_password: Final = Option(
        None, nullable(text), "Password of a key in PEM or JKS; by default, in JKS, that of the key store."
    )
    ssl_endpoint_identification_algorithm: Final = Option(
        "https", identification, "https: the broker's certificate must match its host name; empty: any name."
    )
    ssl_enabled_protocols: Option[tuple[str, ...]] = Option(
        PROTOCOLS, words(*PROTOCOLS), "Enabled TLS versions, TLSv1.2 and TLSv1.3, separated by commas."
    )
    ssl_protocol: Final = Option(
        "TLSv1.3", one_of(*PROTOCOLS, "TLS"), "The newest TLS version to use: TLSv1.2 or TLSv1.3; TLS means TLSv1.3."
    )
    ssl_cipher_suites: Option[tuple[str, ...]] = Option(
        (),
        words(),
        "Cipher suites, by their names in Java or OpenSSL; empty: OpenSSL's secure defaults. Those of TLS 1.3 are "
        "enabled all together if one is in the list.",
    )


class TlsConfig(SslConfig):
    """The TLS options of clients: those of Kafka and of kafka-python."""

    ssl_context: Final = Option(None, anything, "An ssl.SSLContext, instead of all other ssl configs.")
    ssl_check_hostname: Final = Option(
        True, boolean, "Option of kafka-python: False is the same as an empty ssl.endpoint.identification.algorithm."
    )
    ssl_cafile: Final = Option(
        None,
        nullable(text),
        "Option of kafka-python: PEM file with the trusted certificates. Ignored if a trust store is set.",
    )
    ssl_certfile: Final = Option(
        None,
        nullable(text),
        "Option of kafka-python: PEM file with the client's certificate chain. Ignored if a key store is set.",
    )
    ssl_keyfile: Final = Option(
        None,
        nullable(text),
        "Option of kafka-python: PEM file with the client's key; not set: the key is in the file of ssl.certfile.",
    )
    ssl_password: Final = Option(None, nullable(text), "Option of kafka-python: password of the client's key.")
    ssl_crlfile: Final = Option(None, nullable(text), "Option of kafka-python: PEM file with revoked certificates.")
    ssl_ciphers: Final = Option(None, nullable(text), "Option of kafka-python: cipher suites in OpenSSL's notation.")

    @property
    def checks_hostname(self) -> bool:
        """Whether a broker's certificate must match its host name."""
        return self.ssl_check_hostname and bool(self.ssl_endpoint_identification_algorithm)
