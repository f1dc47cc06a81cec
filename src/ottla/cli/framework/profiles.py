"""Profiles: connections that tools use by default, so that `--bootstrap-server` need not be repeated.

Profiles are in `ottla/config.toml` in XDG_CONFIG_HOME (default: `~/.config`), or in the file that OTTLA_CONFIG names:

    default = "local"

    [profiles.local]
    "bootstrap.servers" = "localhost:9092"

    [profiles.production]
    "bootstrap.servers" = "kafka.example.com:9094"
    "security.protocol" = "SASL_SSL"

The profile is selected by `--profile`, otherwise by OTTLA_PROFILE, otherwise by `default` in the file. Addresses may
also be in OTTLA_BOOTSTRAP_SERVERS, without a profile. If several sources set a config, the command line has precedence,
then the file of `--command-config`, then OTTLA_BOOTSTRAP_SERVERS, then the profile. With `--profile`,
OTTLA_BOOTSTRAP_SERVERS is ignored.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ottla.errors import ConfigurationError

SERVERS: Final = "bootstrap.servers"


def config_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the file that contains the profiles. It need not exist."""
    if environment.get("OTTLA_CONFIG"):
        return Path(environment["OTTLA_CONFIG"])
    return Path(environment.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "ottla" / "config.toml"


def has_connection(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether OTTLA_BOOTSTRAP_SERVERS is set or the file of profiles exists, so that the command line may need
    no addresses.
    """
    return bool(environment.get("OTTLA_BOOTSTRAP_SERVERS")) or config_file(environment).exists()


def configs(profile: str | None, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the client configs of a profile (None: of OTTLA_PROFILE or the default profile, if any).
    Unless `profile` is set, OTTLA_BOOTSTRAP_SERVERS overrides bootstrap.servers.

    Raises ConfigurationError if the profile does not exist or the file cannot be read.
    """
    chosen = profile or environment.get("OTTLA_PROFILE")
    file = config_file(environment)
    result: dict[str, str] = {}
    if file.exists():
        result = _profile(file, chosen)
    elif chosen:
        raise ConfigurationError(f"--profile {chosen}: there is no file {file}")
    if environment.get("OTTLA_BOOTSTRAP_SERVERS") and not profile:
        result[SERVERS] = environment["OTTLA_BOOTSTRAP_SERVERS"]
    return result


def _profile(file: Path, chosen: str | None) -> dict[str, str]:
    import tomllib  # only for those who have profiles

    try:
        document = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{file}: the profiles cannot be read: {error}") from None
    profiles = document.get("profiles", {})
    name = chosen or document.get("default")
    if name is None:
        return {}
    if not isinstance(profiles, dict) or not isinstance(profiles.get(name), dict):
        from ottla.config.options import nearest

        hint = nearest(name, list(profiles)) if isinstance(profiles, dict) else ""
        raise ConfigurationError(f"{file}: there is no profile {name!r}{hint}")
    return dict(_flat(profiles[name]))


def _flat(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return the dotted names and the values of the configs in a TOML table. In TOML, a key `bootstrap.servers` without
    quotes is a table within a table.
    """
    pairs: list[tuple[str, str]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            pairs += _flat(value, f"{prefix}{key}.")
        else:
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            pairs.append((prefix + key, text.lower() if isinstance(value, bool) else text))
    return pairs
