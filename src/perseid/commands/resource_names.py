"""The arguments DATABASE and CONTAINER, which bash, zsh and fish complete from the server."""

from __future__ import annotations

from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from perseid.commands.admin_client import select_server
from perseid.commands.connection import Connection
from perseid.commands.resource_client import container_names, database_names


class ResourceName(click.types.StringParamType):
    """The name of a database or container. An empty one would address all of them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value).strip():
            self.fail("The name is empty.", param, ctx)
        return super().convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that the server has; none if it does not answer."""
        options = ctx.params
        try:
            client = select_server(
                ctx, options["endpoint"], options["key"], options["connection_string"]
            )
            with client.connect() as connection:
                names = self._names(connection, param, options.get("database"))
        except (click.ClickException, KeyError):
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]

    def _names(
        self, connection: Connection, param: click.Parameter, database: str | None
    ) -> list[str]:
        if param.name == "database":
            return database_names(connection)
        return [] if database is None else container_names(connection, database)


NAME: Final = ResourceName()
