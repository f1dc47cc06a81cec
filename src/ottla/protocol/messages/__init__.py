"""One file per API, with its request and response, and files for records and for data that group members exchange."""
