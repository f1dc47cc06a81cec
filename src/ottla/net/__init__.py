"""Sockets of Kafka's protocol: the broker's listeners and the clients' channels."""
