"""Checks a server with the official Python client, sync and async. Needs --test-clock."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
import traceback
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import requests
from azure.core import MatchConditions
from azure.cosmos import CosmosClient, PartitionKey, ThroughputProperties, aio
from azure.cosmos.exceptions import CosmosHttpResponseError

from perseid.commands.remote import sign

ENDPOINT = os.environ["PERSEID_ENDPOINT"]
KEY = os.environ["PERSEID_KEY"]
CERTIFICATE = os.environ.get("PERSEID_CERT") or True
