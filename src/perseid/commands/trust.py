"""`perseid trust`: lets the programs of this machine trust the certificate of a server."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perseid.certificates import TRUSTED_FILE, certificates_in
from perseid.commands.arguments import NamedPath
from perseid.config import Settings
from perseid.private_files import user_path

if TYPE_CHECKING:
    from perseid.commands.trust_stores import LocalCertificate, TrustPlan


@click.command()
@click.option(
    "--data",
    "directory",
    type=NamedPath(),
    envvar="PERSEID_DATA",
    show_envvar=True,
    help="Data directory of the server. Default: perseid-data, or as --memory if that has none.",
)
@click.option("--memory", is_flag=True, help="The certificate of servers with --memory.")
@click.option("--remove", is_flag=True, help="Remove what this command has installed.")
@click.option("--print", "only_prints", is_flag=True, help="Print the commands; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def trust(
    directory: Path | None, *, memory: bool, remove: bool, only_prints: bool, yes: bool
) -> None:
    """Trust the certificate of a server on this machine.

    Reads the certificate from its file, never over the network, shows its fingerprint and what will
    be run, and asks. Installs it in the trust store of the system, and of Java where that has its
    own; prints what Python, Node.js, Java and .NET need besides. The certificate can sign only for
    the names of the server.

    \b
    Examples:
      perseid trust
      perseid trust --data /var/lib/perseid --print
      perseid trust --remove
    """
    from perseid.commands.trust_stores import plan

    if memory and directory is not None:
        raise click.UsageError("--memory and --data are mutually exclusive: give one of them.")
    certificate = _read(_find(directory, is_memory=memory))
    trust_plan = plan(certificate, is_removal=remove)
    _describe(certificate, trust_plan, is_removal=remove)
    is_done = False
    if trust_plan.steps and not only_prints:
        if trust_plan.needs_root:
            raise click.ClickException("This needs root: run the commands above.")
        if not yes:
            click.confirm("Continue?", abort=True)
        for step in trust_plan.steps:
            step.run()
        is_done = True
        click.echo("The certificate was removed." if remove else "The certificate is installed.")
    if not remove:
        _print_hints(certificate, trust_plan)
    elif is_done:
        click.echo("Environment variables that name the certificate are not changed.")


def _find(directory: Path | None, *, is_memory: bool) -> Path:
    """The file of the certificate; ClickException if no server has created it."""
    default = Settings().data
    try:
        of_user = user_path() / TRUSTED_FILE
    except RuntimeError:  # the user has no home directory
        of_user = Path(TRUSTED_FILE)
    if is_memory:
        candidates = [of_user]
    elif directory is not None:
        candidates = [directory / TRUSTED_FILE]
    else:
        candidates = [default / TRUSTED_FILE, of_user]
    for path in candidates:
        if path.is_file():
            return path.resolve()
    option = " --memory" if is_memory else "" if directory is None else f" --data {directory}"
    raise click.ClickException(
        f"{candidates[0]} does not exist. A server creates it when it starts: run"
        f" `perseid serve{option}`, or name the directory of your server with --data."
    )


def _read(path: Path) -> LocalCertificate:
    """ClickException if it is not an authority that Perseid has created."""
    from perseid.certificate_creation import read_authority
    from perseid.commands.trust_stores import LocalCertificate

    try:
        (content,) = certificates_in(path.read_bytes())
        authority = read_authority(content)
    except ValueError:
        raise click.ClickException(
            f"{path} does not contain one certificate of an authority; start the server again, and"
            " it creates a new one."
        ) from None
    if not authority.names:
        raise click.ClickException(
            f"{path} could sign for every name, so it is not installed; start the server again, and"
            " it creates a new one that is limited to its own names."
        )
    return LocalCertificate(path, content, authority)


def _describe(certificate: LocalCertificate, trust_plan: TrustPlan, *, is_removal: bool) -> None:
    authority = certificate.authority
    click.echo(f"Certificate  {certificate.path}")
    click.echo(f"Subject      {authority.subject}, until {authority.expires:%Y-%m-%d}")
    click.echo(f"SHA-256      {authority.sha256}")
    click.echo(f"Signs for    {', '.join(authority.names)}")
    if not trust_plan.steps:
        click.echo(
            "It is not installed; nothing is removed."
            if is_removal
            else "This system has no trust store that this command can change."
        )
        return
    click.echo("To remove it:" if is_removal else "To install it:")
    sudo = "sudo " if trust_plan.needs_root else ""
    for step in trust_plan.steps:
        click.echo(f"  {sudo}{shlex.join(step.command)}")


def _print_hints(certificate: LocalCertificate, trust_plan: TrustPlan) -> None:
    from perseid.commands.trust_stores import hints

    click.echo("What programs need:")
    for language, text in hints(certificate, trust_plan):
        click.echo(f"  {language:<8} {text}")
