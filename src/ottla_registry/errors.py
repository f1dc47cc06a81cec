"""The errors of the REST API, with the codes of Confluent's registry, and with its messages for the errors that both
registries have.
"""

from __future__ import annotations


class RestError(Exception):
    """An error response. The HTTP status is the first three digits of the code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def status(self) -> int:
        """The HTTP status of the response, such as 404."""
        return self.code if self.code < 1000 else self.code // 100


def subject_not_found(subject: str) -> RestError:
    return RestError(40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RestError:
    return RestError(40402, f"Version {version} not found.")


def schema_not_found(schema_id: int | str | None = None) -> RestError:
    return RestError(40403, "Schema not found" if schema_id is None else f"Schema {schema_id} not found")


def subject_soft_deleted(subject: str) -> RestError:
    return RestError(40404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently")


def subject_not_soft_deleted(subject: str) -> RestError:
    return RestError(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> RestError:
    return RestError(
        40406, f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
    )


def version_not_soft_deleted(subject: str, version: int) -> RestError:
    return RestError(
        40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    )


def compatibility_not_configured(subject: str) -> RestError:
    return RestError(40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def mode_not_configured(subject: str) -> RestError:
    return RestError(40409, f"Subject '{subject}' does not have subject-level mode configured")


INVALID_SCHEMA = 42201


def invalid_schema(reason: str) -> RestError:
    return RestError(INVALID_SCHEMA, f"Invalid schema: {reason}")


def invalid_version(version: str) -> RestError:
    return RestError(
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1] and the "
        'string "latest"',
    )


def invalid_compatibility() -> RestError:
    return RestError(
        42203,
        "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
        "forward_transitive, and full_transitive",
    )


def invalid_mode() -> RestError:
    return RestError(42204, "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE and IMPORT")


def not_permitted(reason: str) -> RestError:
    return RestError(42205, reason)


def reference_exists(subject: str, version: int) -> RestError:
    return RestError(42206, f"One or more references exist to the schema {{subject={subject},version={version}}}.")


def id_does_not_match(schema_id: int) -> RestError:
    return RestError(42207, f"Overwrite new schema with id {schema_id} is not permitted.")


def invalid_subject(subject: str) -> RestError:
    return RestError(42208, f"The specified subject '{subject}' is not a valid.")


def not_supported(setting: str) -> RestError:
    return RestError(422, f"{setting} is not supported by this registry, and would have no effect")


def invalid_config(reason: str) -> RestError:
    return RestError(422, f"Invalid config: {reason}")


def schema_too_large(limit: int) -> RestError:
    return RestError(42209, f"The schema is larger than {limit} bytes")


def record_too_large(reason: str) -> RestError:
    return RestError(42209, f"The schema is too large with its metadata, rules and references: {reason}")


def invalid_rule_set(rule: str, reason: str) -> RestError:
    return RestError(42210, f"Invalid rule set: rule '{rule}': {reason}")


def incompatible(subject: str, messages: list[str]) -> RestError:
    return RestError(
        409,
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
        f"details: [{', '.join(messages)}]",
    )


def store_failed(reason: str) -> RestError:
    return RestError(50001, f"Error in the backend data store - {reason}")


def store_timed_out() -> RestError:
    return RestError(50002, "Register operation timed out")
