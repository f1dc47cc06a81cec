"""Features of the cluster, with levels that apply to all brokers (KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
STREAMS_VERSION: Final = "streams.version"
TRANSACTION_VERSION: Final = "transaction.version"


class Feature(NamedTuple):
    """One feature, with its lowest and highest supported level."""

    name: str
    first: int
    last: int


FEATURES: Final = (
    # 1: group.protocol=consumer (KIP-848)
    Feature(GROUP_VERSION, 0, 1),
    # 1: share groups (KIP-932)
    Feature(SHARE_VERSION, 0, 1),
    # 1: streams groups (KIP-1071)
    Feature(STREAMS_VERSION, 0, 1),
    # 1: flexible records in __transaction_state; 2: an epoch per transaction (KIP-890)
    Feature(TRANSACTION_VERSION, 0, 2),
)

BY_NAME: Final = {feature.name: feature for feature in FEATURES}


def highest() -> Mapping[str, int]:
    """Return the feature levels of a new cluster: the highest ones."""
    return {feature.name: feature.last for feature in FEATURES}
