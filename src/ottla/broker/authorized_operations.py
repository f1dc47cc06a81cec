"""What a client may do with a resource, as the bits that it can ask for (KIP-430).

Nothing restricts clients yet, so that is all that can be done with a resource of its kind.
"""

from __future__ import annotations

from enum import IntEnum


class Operation(IntEnum):
    """AclOperation, by its number on the wire."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


UNASKED = -0x8000_0000
"""What stands in an answer whose request did not ask."""


def _bits(*operations: Operation) -> int:
    return sum(1 << operation for operation in operations)


_ON_OPTIONS = (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)

TOPIC = _bits(
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DESCRIBE,
    Operation.DELETE,
    Operation.ALTER,
    *_ON_OPTIONS,
)
GROUP = _bits(Operation.READ, Operation.DESCRIBE, Operation.DELETE, *_ON_OPTIONS)
CLUSTER = _bits(
    Operation.CREATE,
    Operation.CLUSTER_ACTION,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.IDEMPOTENT_WRITE,
    *_ON_OPTIONS,
)
