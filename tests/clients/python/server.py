"""The server that the environment names, and its clock."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from email.utils import formatdate
from typing import Any
from urllib.parse import quote

import requests

ENDPOINT = os.environ["PERSEID_ENDPOINT"]
KEY = os.environ["PERSEID_KEY"]
# The path of the certificate to trust, or True for those of the system.
CERTIFICATE: Any = os.environ.get("PERSEID_CERT") or True


def move_clock(action: str, body: dict[str, int]) -> None:
    """Calls the admin API of a server with --test-clock."""
    path, date = f"_perseid/clock/{action}", formatdate(usegmt=True)
    text = f"post\n_perseid\n{path}\n{date.lower()}\n\n"
    digest = hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)
    signature = base64.b64encode(digest).decode()
    headers = {
        "x-ms-date": date,
        "x-ms-version": "2020-07-15",
        "authorization": quote(f"type=master&ver=1.0&sig={signature}", safe=""),
    }
    response = requests.post(
        f"{ENDPOINT.rstrip('/')}/{path}", json=body, headers=headers, verify=CERTIFICATE, timeout=60
    )
    assert response.ok, response.text


def advance(seconds: int) -> None:
    move_clock("advance", {"seconds": seconds})
