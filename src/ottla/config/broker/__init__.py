"""The options of a broker (`server.properties`)."""
