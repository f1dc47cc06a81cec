"""The types of schemas: parsing, canonical form and compatibility of Avro, JSON Schema and Protobuf."""
