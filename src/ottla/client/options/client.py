"""Keyword options that all clients have. Written by `python -m scripts.option_types`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict


class ClientOptions(TypedDict, total=False):
    """Keyword options that all clients have."""

    sasl_oauthbearer_token_endpoint_url: str | None
    """OAUTHBEARER: URL of the endpoint that issues tokens (client credentials grant), or file:///… for a file with a
    token. Without it, and without sasl.oauth.token.provider, tokens are unsigned and have the claims in
    sasl.jaas.config, which is for tests only.
    """
    sasl_oauthbearer_client_credentials_client_id: str | None
    """Client id for the token endpoint; not set: clientId in sasl.jaas.config."""
    sasl_oauthbearer_client_credentials_client_secret: str | None
    """Client secret for the token endpoint; not set: clientSecret in sasl.jaas.config."""
    sasl_oauthbearer_scope: str | None
    """Scope to request for the token; not set: scope in sasl.jaas.config, if any."""
    sasl_oauthbearer_header_urlencode: bool
    """Whether client id and secret are URL-encoded for the token endpoint (RFC 6749), as some endpoints require."""
    sasl_login_connect_timeout_ms: int | None
    """Timeout in milliseconds of requests to the token endpoint. If sasl.login.read.timeout.ms is also set, the longer
    of the two applies; if neither is set, 10 seconds.
    """
    sasl_login_read_timeout_ms: int | None
    """Timeout in milliseconds of requests to the token endpoint. If sasl.login.connect.timeout.ms is also set, the
    longer of the two applies; if neither is set, 10 seconds.
    """
    sasl_login_retry_backoff_ms: int
    """Delay in milliseconds before the first retry of a failed request to the token endpoint; it doubles with each
    further retry.
    """
    sasl_login_retry_backoff_max_ms: int
    """Maximum time in milliseconds, all retries together, for which a failed request to the token endpoint is retried.
    """
    ssl_truststore_location: str | None
    """Trust store file with the certificates of the trusted certificate authorities; ssl.truststore.certificates takes
    precedence. Without trusted certificates in any option, those of the system are used.
    """
    ssl_truststore_password: str | None
    """Password of the trust store, if it is JKS or PKCS12; PEM files have none. Not set: a JKS file is read without
    checking its integrity.
    """
    ssl_truststore_type: str
    """Type of the trust store: PEM, JKS or PKCS12. With JKS or PKCS12, the actual type of a file is recognized by its
    content; ssl.truststore.certificates requires PEM.
    """
    ssl_truststore_certificates: str | None
    """Trusted certificates as PEM text, instead of a file; requires ssl.truststore.type=PEM."""
    ssl_keystore_location: str | None
    """Key store file with the private key and the certificate chain with which to authenticate; ssl.keystore.key takes
    precedence.
    """
    ssl_keystore_password: str | None
    """Password of the key store, which JKS and PKCS12 require; PEM files have none."""
    ssl_keystore_type: str
    """Type of the key store: PEM, JKS or PKCS12. With JKS or PKCS12, the actual type of a file is recognized by its
    content; ssl.keystore.key and ssl.keystore.certificate.chain require PEM.
    """
    ssl_keystore_key: str | None
    """Private key as PEM text (PKCS#8), instead of a key store file; requires ssl.keystore.certificate.chain and
    ssl.keystore.type=PEM.
    """
    ssl_keystore_certificate_chain: str | None
    """Certificate chain as PEM text, beginning with the certificate of the key in ssl.keystore.key, which it requires.
    """
    ssl_key_password: str | None
    """Password of the private key in a PEM or JKS key store or in ssl.keystore.key. Not set: JKS uses
    ssl.keystore.password, and a PEM key must not be encrypted.
    """
    ssl_endpoint_identification_algorithm: str
    """https: the certificate of the broker that is connected to must match its host name; empty: its host name is not
    verified.
    """
    ssl_enabled_protocols: str | Sequence[str]
    """Enabled TLS versions, TLSv1.2 and TLSv1.3, separated by commas; of these, only those up to ssl.protocol are used.
    """
    ssl_protocol: str
    """Newest TLS version to use among ssl.enabled.protocols: TLSv1.2 or TLSv1.3; TLS means TLSv1.3."""
    ssl_cipher_suites: str | Sequence[str]
    """Cipher suites, by their names in Java or OpenSSL; empty: OpenSSL's defaults. If the list has any suite of TLS
    1.3, all of that version are enabled, otherwise TLS 1.3 is disabled; if it has only such suites, TLS 1.2 is
    disabled.
    """
    ssl_context: Any
    """An ssl.SSLContext for connections, which replaces the other ssl configs; None: a context is made from them. If
    its check_hostname is False, ssl.check.hostname and ssl.endpoint.identification.algorithm still decide whether the
    host name is sent to the broker (SNI).
    """
    ssl_check_hostname: bool
    """Option of kafka-python: False is the same as an empty ssl.endpoint.identification.algorithm; with True, that
    config decides.
    """
    ssl_cafile: str | None
    """Option of kafka-python: PEM file with the trusted certificates. Ignored if ssl.truststore.certificates or
    ssl.truststore.location is set.
    """
    ssl_certfile: str | None
    """Option of kafka-python: PEM file with the client's certificate chain. Ignored if ssl.keystore.key or
    ssl.keystore.location is set.
    """
    ssl_keyfile: str | None
    """Option of kafka-python: PEM file with the key of the certificate in ssl.certfile, without which it has no effect;
    not set: the key is in the file of ssl.certfile.
    """
    ssl_password: str | None
    """Option of kafka-python: password of the key in ssl.keyfile or ssl.certfile, if it is encrypted."""
    ssl_crlfile: str | None
    """Option of kafka-python: PEM file with certificate revocation lists. The client rejects a broker's certificate
    that is revoked, or whose issuer has no list in the file. Not set: revocation is not checked.
    """
    ssl_ciphers: str | None
    """Option of kafka-python: cipher suites of TLS 1.2 in OpenSSL's notation; not set: OpenSSL's defaults. Suites of
    TLS 1.2 in ssl.cipher.suites take precedence.
    """
    bootstrap_servers: str | Sequence[str]
    """Brokers through which the client discovers the cluster, as host:port, separated by commas or as a list; the
    default port is 9092.
    """
    client_dns_lookup: str
    """Resolution of host names. use_all_dns_ips: the client tries the addresses of a host in turn until one connects;
    resolve_canonical_bootstrap_servers_only: it also replaces the bootstrap servers by the canonical names of their
    addresses.
    """
    client_id: str | None
    """Name of the client in the broker's logs, metrics and quotas; empty: a generated name, such as producer-1."""
    request_timeout_ms: int
    """Time in milliseconds that the client waits for the response to a request, which then fails or is retried. The
    response to a Produce request may take up to half a second longer; those to JoinGroup and SyncGroup may take up to
    max.poll.interval.ms plus 5 seconds.
    """
    retry_backoff_ms: int
    """Delay in milliseconds before the first retry of a failed request. For metadata, produce and admin requests, among
    others, it doubles with each further retry, up to retry.backoff.max.ms.
    """
    retry_backoff_max_ms: int
    """Maximum delay in milliseconds between retries of a request. For metadata, produce and admin requests, among
    others, the delay starts at retry.backoff.ms and doubles with each retry up to this; for the others, such as
    fetches, it stays at retry.backoff.ms.
    """
    reconnect_backoff_ms: int
    """Delay in milliseconds between a failed attempt to connect to a broker and the next one. It doubles with each
    failure in a row, up to reconnect.backoff.max.ms; a lost connection is reopened without delay.
    """
    reconnect_backoff_max_ms: int
    """Maximum delay in milliseconds between attempts to connect to the same broker. The delay starts at
    reconnect.backoff.ms and doubles with each failure in a row up to this.
    """
    connections_max_idle_ms: int
    """Time in milliseconds after which the client closes an idle connection; negative: never. Connections are checked
    at intervals of half this time, but not more often than every 100 ms.
    """
    socket_connection_setup_timeout_ms: int
    """Time in milliseconds within which a connection must be established, including the TLS handshake. It doubles with
    each failed attempt in a row, up to socket.connection.setup.timeout.max.ms.
    """
    socket_connection_setup_timeout_max_ms: int
    """Maximum in milliseconds of the connection setup timeout, which starts at socket.connection.setup.timeout.ms and
    doubles with each failed attempt in a row. If it is lower than that, the timeout does not grow.
    """
    metadata_max_age_ms: int
    """Time in milliseconds after which the client refreshes its metadata even if no error or change requires it."""
    metadata_recovery_strategy: str
    """Action of the client if no known broker responds: rebootstrap (it connects to the bootstrap servers again) or
    none (it keeps trying the known brokers).
    """
    metadata_recovery_rebootstrap_trigger_ms: int
    """Time in milliseconds for which metadata requests must have failed before the client closes its connections and
    discovers the cluster through the bootstrap servers again; it does so at once if a broker demands it. No effect with
    metadata.recovery.strategy=none.
    """
    receive_buffer_bytes: int | None
    """Size in bytes of the socket's receive buffer (SO_RCVBUF); -1: the system's default."""
    send_buffer_bytes: int | None
    """Size in bytes of the socket's send buffer (SO_SNDBUF); -1: the system's default."""
    socket_options: str | Sequence[Any]
    """Option of kafka-python: further socket options, each as the arguments (level, option, value) of setsockopt()."""
    allow_auto_create_topics: bool
    """Whether a request for the metadata of an unknown topic may create it, if the broker's auto.create.topics.enable
    allows that. No effect on an admin client, which creates topics only with create_topics().
    """
    security_protocol: str
    """Protocol of connections to brokers: PLAINTEXT, SSL (TLS), SASL_PLAINTEXT or SASL_SSL (SASL over TLS)."""
    sasl_mechanism: str
    """SASL mechanism with which the client authenticates: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER. No effect
    unless security.protocol is SASL_PLAINTEXT or SASL_SSL.
    """
    sasl_jaas_config: str | None
    """JAAS line with user and password, such as `…PlainLoginModule required username="a" password="b";`, or with the
    parameters of OAUTHBEARER. Not set: sasl.plain.username and sasl.plain.password apply.
    """
    sasl_oauth_token_provider: Any
    """Option of kafka-python: a function that returns a token for OAUTHBEARER, or an object with token(). It takes
    precedence over sasl.oauthbearer.token.endpoint.url and sasl.jaas.config.
    """
    sasl_plain_username: str | None
    """User name for PLAIN and SCRAM; ignored if sasl.jaas.config is set."""
    sasl_plain_password: str | None
    """Password for PLAIN and SCRAM; ignored if sasl.jaas.config is set."""
    sasl_tokenauth: bool
    """Whether user name and password for SCRAM are the id and the HMAC (base64) of a delegation token. tokenauth="true"
    in sasl.jaas.config has the same effect.
    """
    metric_reporters: str | Sequence[Any]
    """Reporters to which the client passes its metrics: prometheus, logging, classes, objects or dotted names of
    classes; empty: none.
    """
    metrics_num_samples: int
    """Number of samples, each as long as metrics.sample.window.ms, over which rates, averages and maxima are computed.
    """
    metrics_sample_window_ms: int
    """Length in milliseconds of a sample. Rates, averages and maxima are computed over metrics.num.samples samples."""
    metrics_recording_level: str
    """Most detailed level of metrics that are recorded: INFO, DEBUG or TRACE. The metrics of the clients are all INFO,
    so DEBUG and TRACE add none.
    """
