"""The HTTP listener of a broker, `ottla.http.listener`: metrics, health, version."""
