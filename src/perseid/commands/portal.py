"""`perseid portal`: opens the data explorer in the browser, signed in with the key."""

from __future__ import annotations

from urllib.parse import quote

import click

from perseid.commands.admin_client import AdminClient, server_options
from perseid.commands.output import print_json


@click.command()
@click.option(
    "--print", "only_prints", is_flag=True, help="Print the address; do not open a browser."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print the address as JSON; do not open a browser."
)
@server_options
def portal(client: AdminClient, *, only_prints: bool, as_json: bool) -> None:
    """Open the data explorer in the browser.

    The address contains the key after its #. Browsers do not send that part to any server, but
    anyone who sees the address can use the key.

    \b
    Example:
      perseid portal --endpoint http://127.0.0.1:8081/
    """
    client.get("clock")  # fails here with a message, before a browser would show an empty page
    url = f"{client.endpoint.rstrip('/')}/_explorer/#key={quote(client.key, safe='')}"
    if as_json:
        print_json({"url": url})
    elif only_prints:
        click.echo(url)
    else:
        import webbrowser

        if not webbrowser.open(url):
            click.echo(f"No browser could be opened. The address is\n{url}")
