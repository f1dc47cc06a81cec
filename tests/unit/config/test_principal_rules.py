"""Rules that map distinguished names of certificates to principals."""

from __future__ import annotations

import pytest

from ottla.config.broker.broker_config import BrokerConfig
from ottla.config.broker.principal_rules import mapped, principal_rules
from ottla.errors import ConfigurationError

NAME = "CN=kafka-server1,OU=KAFKA,O=Org,C=DE"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("DEFAULT", NAME),
        ("RULE:^CN=(.*?),.*$/$1/", "kafka-server1"),
        ("RULE:^CN=(.*?),.*$/$1/U", "KAFKA-SERVER1"),
        ("RULE:^CN=(.*?), *OU=(.*?),.*$/$1@$2/L", "kafka-server1@kafka"),
        ("RULE:^UID=(.*?)$/$1/, RULE:^CN=(.*?),.*$/$1/", "kafka-server1"),
        ("RULE:^UID=(.*?)$/$1/, DEFAULT", NAME),
        ("RULE:^CN=(.*?),.*$/a\\/b/", "a/b"),
        ("RULE:^CN=(.*?),.*$/$12/", "kafka-server12"),
        ("RULE:^CN=(.*?),.*$/$2/", "$2"),
        ("RULE:kafka/x/,DEFAULT", NAME),
        ("RULE:^UID=.*$/x/", None),
        ("", None),
    ],
)
def test_first_rule_that_matches_the_whole_name_applies(rules: str, expected: str | None) -> None:
    assert mapped(principal_rules(rules), NAME) == expected


@pytest.mark.parametrize("rules", ["RULE:a/b", "RULE:(/b/", "default", "DEFAULT RULE:a/b/", "RULE:a/b/X"])
def test_malformed_principal_mapping_rule_is_rejected(rules: str) -> None:
    with pytest.raises(ConfigurationError, match=r"ssl\.principal\.mapping\.rules"):
        BrokerConfig({"ssl.principal.mapping.rules": rules})
