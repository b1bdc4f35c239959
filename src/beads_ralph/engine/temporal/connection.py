"""The way to the server, and what is wrong where there is none."""

from __future__ import annotations

import logging
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Final

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, GetSystemInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode, TLSConfig

from beads_ralph.config.model import TemporalSettings
from beads_ralph.errors import Code, RalphError

OLDEST: Final = (1, 25)
"""The first server whose updates are for general use."""
PATIENCE: Final = timedelta(seconds=10)
START: Final = "Start one: beads-ralph engine start; or set temporal.address"


logging.getLogger("temporalio").addHandler(logging.NullHandler())  # else its words would go to stderr


async def connected(said: TemporalSettings) -> Client:
    """A client; EXECUTION.UNAVAILABLE where server, namespace or version are wrong."""
    try:
        client = await Client.connect(
            said.address, namespace=said.namespace, tls=_tls(said) or bool(_key(said)), api_key=_key(said)
        )
        info = await client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=PATIENCE)
    except (RPCError, RuntimeError, ValueError) as problem:
        message = f"no Temporal server answers at {said.address}"
        raise RalphError(Code.UNAVAILABLE, message, details=str(problem), suggested_action=START) from None
    _require_version(info.server_version, said.address)
    await _require_namespace(client, said)
    return client


def _require_version(version: str, address: str) -> None:
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers and numbers < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        message = f"the Temporal server at {address} is {version}; {oldest} or newer is needed"
        raise RalphError(Code.UNAVAILABLE, message, suggested_action="Update the server")


async def _require_namespace(client: Client, said: TemporalSettings) -> None:
    try:
        asked = DescribeNamespaceRequest(namespace=said.namespace)
        await client.workflow_service.describe_namespace(asked, timeout=PATIENCE)
    except RPCError as problem:
        if problem.status == RPCStatusCode.NOT_FOUND:
            message = f"the Temporal server at {said.address} has no namespace {said.namespace}"
            action = (
                f"Set temporal.namespace, or make it: temporal operator namespace create {said.namespace}"
            )
        else:
            message = f"the Temporal server at {said.address} refuses: {problem.message}"
            action = "See temporal.tls_cert and temporal.api_key_env"
        raise RalphError(Code.UNAVAILABLE, message, suggested_action=action) from None


def _key(said: TemporalSettings) -> str | None:
    if said.api_key_env is None:
        return None
    if not (key := os.environ.get(said.api_key_env)):
        message = f"temporal.api_key_env names {said.api_key_env}, which is not set"
        raise RalphError(Code.CONFIG_INVALID, message, suggested_action=f"Set {said.api_key_env}")
    return key


def _tls(said: TemporalSettings) -> TLSConfig | None:
    if not (said.tls_ca or said.tls_cert or said.tls_key):
        return None
    return TLSConfig(
        server_root_ca_cert=_file(said.tls_ca, "tls_ca"),
        client_cert=_file(said.tls_cert, "tls_cert"),
        client_private_key=_file(said.tls_key, "tls_key"),
    )


def _file(name: str | None, key: str) -> bytes | None:
    if name is None:
        return None
    try:
        return Path(name).expanduser().read_bytes()
    except OSError as problem:
        message = f"temporal.{key}: {name}: {problem.strerror or problem}"
        raise RalphError(Code.CONFIG_INVALID, message) from None
