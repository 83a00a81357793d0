"""The certificate for download, under Perseid's own path and under that of the emulators."""

from __future__ import annotations

from typing import Final

from perseid.errors import NotFound
from perseid.http.request import Response
from perseid.service.account import Account

EMULATOR_PATH: Final = "/_explorer/emulator.pem"


def certificate_response(account: Account) -> Response:
    """What clients have to trust, never a private key; 404 if the server does not use HTTPS."""
    if account.trusted_certificate is None:
        raise NotFound(
            "This server uses plain HTTP; there is no certificate. Start it without --https-port 0"
            " to serve HTTPS, too."
        )
    return Response(200, [], account.trusted_certificate, "application/x-pem-file")
