"""Keyword options that all clients have. Written by `python -m scripts.option_types`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict


class ClientOptions(TypedDict, total=False):
    """Keyword options that all clients have."""

    sasl_oauthbearer_token_endpoint_url: str | None
    """OAUTHBEARER: the endpoint that issues tokens (client credentials grant), or file:///… for a file with a token.
    Without a source, tokens are unsigned and have the claims in sasl.jaas.config.
    """
    sasl_oauthbearer_client_credentials_client_id: str | None
    """Client id for the token endpoint; not set: clientId in sasl.jaas.config."""
    sasl_oauthbearer_client_credentials_client_secret: str | None
    """Client secret for the token endpoint; not set: clientSecret in sasl.jaas.config."""
    sasl_oauthbearer_scope: str | None
    """Scope to request for the token; not set: scope in sasl.jaas.config, if any."""
    sasl_oauthbearer_header_urlencode: bool
    """URL-encode client id and secret (RFC 6749), as some endpoints require."""
    sasl_login_connect_timeout_ms: int | None
    """Timeout in milliseconds of requests to the token endpoint; by default 10 seconds."""
    sasl_login_read_timeout_ms: int | None
    """Same as sasl.login.connect.timeout.ms; the longer of the two timeouts is used."""
    sasl_login_retry_backoff_ms: int
    """Initial delay in milliseconds before a failed request to the token endpoint is retried."""
    sasl_login_retry_backoff_max_ms: int
    """Maximum time in milliseconds for which failed requests to the token endpoint are retried."""
    ssl_truststore_location: str | None
    """Trust store file: certificates of the trusted certificate authorities. Without trusted certificates in any
    option, those of the system are used.
    """
    ssl_truststore_password: str | None
    """Password of the trust store; PEM files have none."""
    ssl_truststore_type: str
    """Type of the trust store: PEM, JKS or PKCS12. Files are recognized by their content; ssl.truststore.certificates
    requires PEM.
    """
    ssl_truststore_certificates: str | None
    """Trusted certificates as PEM text, instead of a file."""
    ssl_keystore_location: str | None
    """Key store file: the private key and the certificate chain with which to authenticate."""
    ssl_keystore_password: str | None
    """Password of the key store; PEM files have none."""
    ssl_keystore_type: str
    """Type of the key store: PEM, JKS or PKCS12. Files are recognized by their content; ssl.keystore.key and
    ssl.keystore.certificate.chain require PEM.
    """
    ssl_keystore_key: str | None
    """Private key as PEM text (PKCS#8), instead of a key store file."""
    ssl_keystore_certificate_chain: str | None
    """Certificate chain as PEM text, beginning with the certificate of the key in ssl.keystore.key."""
    ssl_key_password: str | None
    """Password of a key in PEM or JKS; by default, in JKS, that of the key store."""
    ssl_endpoint_identification_algorithm: str
    """https: the broker's certificate must match its host name; empty: any name."""
    ssl_enabled_protocols: str | Sequence[str]
    """Enabled TLS versions, TLSv1.2 and TLSv1.3, separated by commas."""
    ssl_protocol: str
    """The newest TLS version to use: TLSv1.2 or TLSv1.3; TLS means TLSv1.3."""
    ssl_cipher_suites: str | Sequence[str]
    """Cipher suites, by their names in Java or OpenSSL; empty: OpenSSL's secure defaults. Those of TLS 1.3 are enabled
    all together if one is in the list.
    """
    ssl_context: Any
    """An ssl.SSLContext, instead of all other ssl configs."""
    ssl_check_hostname: bool
    """Option of kafka-python: False is the same as an empty ssl.endpoint.identification.algorithm."""
    ssl_cafile: str | None
    """Option of kafka-python: PEM file with the trusted certificates. Ignored if a trust store is set."""
    ssl_certfile: str | None
    """Option of kafka-python: PEM file with the client's certificate chain. Ignored if a key store is set."""
    ssl_keyfile: str | None
    """Option of kafka-python: PEM file with the client's key; not set: the key is in the file of ssl.certfile."""
    ssl_password: str | None
    """Option of kafka-python: password of the client's key."""
    ssl_crlfile: str | None
    """Option of kafka-python: PEM file with revoked certificates."""
    ssl_ciphers: str | None
    """Option of kafka-python: cipher suites in OpenSSL's notation."""
    bootstrap_servers: str | Sequence[str]
    """Brokers to connect to first, as host:port, separated by commas or as a list."""
    client_dns_lookup: str
    """use_all_dns_ips: try every address of a host; resolve_canonical_bootstrap_servers_only: also replace the
    bootstrap servers by the canonical names of their addresses.
    """
    client_id: str | None
    """Name of the client in the broker's logs, metrics and quotas; by default a generated one."""
    request_timeout_ms: int
    """Time in milliseconds to wait for a response before the request fails or is retried."""
    retry_backoff_ms: int
    """Initial delay in milliseconds before a request is retried."""
    retry_backoff_max_ms: int
    """Maximum delay in milliseconds between retries; the delay doubles with each retry up to this."""
    reconnect_backoff_ms: int
    """Initial delay in milliseconds before the client connects again to a lost broker."""
    reconnect_backoff_max_ms: int
    """Maximum delay in milliseconds between connection attempts to one broker."""
    connections_max_idle_ms: int
    """Time in milliseconds after which an idle connection is closed; negative: never."""
    socket_connection_setup_timeout_ms: int
    """Time in milliseconds to establish a connection; it doubles after each failure."""
    socket_connection_setup_timeout_max_ms: int
    """Maximum in milliseconds of the connection setup timeout, which doubles after each failure."""
    metadata_max_age_ms: int
    """Maximum age of metadata in milliseconds before it is refreshed."""
    metadata_recovery_strategy: str
    """If no known broker is reachable: rebootstrap (connect to the bootstrap servers again) or none."""
    metadata_recovery_rebootstrap_trigger_ms: int
    """With metadata.recovery.strategy=rebootstrap: time in milliseconds without metadata after which the client
    bootstraps again.
    """
    receive_buffer_bytes: int | None
    """SO_RCVBUF in bytes; -1: the system's default."""
    send_buffer_bytes: int | None
    """SO_SNDBUF in bytes; -1: the system's default."""
    socket_options: str | Sequence[Any]
    """Option of kafka-python: further socket options, as arguments of setsockopt()."""
    allow_auto_create_topics: bool
    """Whether a request for the metadata of an unknown topic may create it, if the brokers allow that. An admin client
    creates topics only with create_topics().
    """
    security_protocol: str
    """Protocol to connect with: PLAINTEXT, SSL (TLS), SASL_PLAINTEXT or SASL_SSL (SASL over TLS)."""
    sasl_mechanism: str
    """SASL mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."""
    sasl_jaas_config: str | None
    """JAAS line with user and password, such as `…PlainLoginModule required username="a" password="b";`, or with the
    parameters of OAUTHBEARER.
    """
    sasl_oauth_token_provider: Any
    """Option of kafka-python: a function that returns a token for OAUTHBEARER, or an object with token(). It takes
    precedence over sasl.oauthbearer.token.endpoint.url.
    """
    sasl_plain_username: str | None
    """User name for PLAIN and SCRAM; ignored if sasl.jaas.config is set."""
    sasl_plain_password: str | None
    """Password for PLAIN and SCRAM; ignored if sasl.jaas.config is set."""
    sasl_tokenauth: bool
    """Whether user name and password for SCRAM are the id and the HMAC (base64) of a delegation token. The same as
    tokenauth="true" in a JAAS line.
    """
    metric_reporters: str | Sequence[Any]
    """Reporters of metrics: prometheus, logging, classes or objects."""
    metrics_num_samples: int
    """Number of windows over which metrics are computed."""
    metrics_sample_window_ms: int
    """Length of a metrics window in milliseconds."""
    metrics_recording_level: str
    """Most detailed level of metrics that are recorded: INFO, DEBUG or TRACE. The metrics of the clients are all INFO,
    so that DEBUG and TRACE add none.
    """
