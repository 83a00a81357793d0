"""`perseid portal`: opens the browser at the data explorer, with the key handed over."""

from __future__ import annotations

from urllib.parse import quote

import click

from perseid.commands.admin_client import AdminClient, server_options
from perseid.commands.output import print_json


@click.command()
@click.option("--print", "only_prints", is_flag=True, help="Print the address; open nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the address as JSON; open nothing.")
@server_options
def portal(client: AdminClient, *, only_prints: bool, as_json: bool) -> None:
    """Open the data explorer in the browser.

    The key travels behind the # of the address: the browser keeps it and sends it to nobody. Who
    can see the address can use the key.

    \b
    Example:
      perseid portal --endpoint http://127.0.0.1:8081/
    """
    client.get("clock")  # says what is wrong before a browser shows an empty page
    url = f"{client.endpoint.rstrip('/')}/_explorer/#key={quote(client.key, safe='')}"
    if as_json:
        print_json({"url": url})
    elif only_prints:
        click.echo(url)
    else:
        import webbrowser

        if not webbrowser.open(url):
            click.echo(f"There is no browser to open here. The address is\n{url}")
