"""Commands that send requests through an admin client.

They have a module of their own so that `ottla broker`, which needs no client, starts without importing one.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.cli.framework.command import Command
from ottla.cli.framework.connection import client_options
from ottla.cli.framework.output import Output
from ottla.client.admin.admin import KafkaAdminClient
from ottla.errors import KafkaError


@dataclass(frozen=True, kw_only=True)
class AdminCommand(Command):
    """A command that sends requests through an admin client, and prints text or, with `--json`, JSON."""

    configs: Mapping[str, Any] = field(default_factory=dict)
    """Configs of the admin client that differ from its defaults. The user's profile and properties file override them.
    """
    fixed_configs: Mapping[str, Any] = field(default_factory=dict)
    """Configs of the admin client that the user's profile and properties file do not override."""
    error: str | None = None
    """Format of the message if connecting or the action raises a KafkaError; None: `Command.main` prints the error."""
    usage_error: str | None = None
    """Format of the message if `check_options` raises a KafkaError; None: `Command.main` prints the error."""

    def execute(self, args: argparse.Namespace) -> int:
        """Check the options, connect, run the action, and print the result. Return the exit code.

        A KafkaError is printed in the format of `error` or `usage_error`, with exit code 1, or raised if that is None.
        """
        text, output = self.usage_error, Output(as_json=getattr(args, "json", False))
        try:
            action = self.check_options(args)
            text = self.error
            run = self.run if action is None else action.run
            assert run is not None, "a command has a function or actions"
            with KafkaAdminClient({**self.configs, **client_options(args), **self.fixed_configs}) as admin:
                result = run(admin, args, output)
                if action is not None and action.header:
                    result = output.rows(action.header, result)
            if result is not None:
                output.document = result
        except KafkaError as error:
            if text is None:
                raise
            return output.error(text.format(error))
        finally:
            output.close()
        return output.exit_code
