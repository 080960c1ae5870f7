"""The cluster's secret, from HOLDFAST_CLUSTER_SECRET or from the file that HOLDFAST_CLUSTER_SECRET_FILE names.

Several secrets are separated by commas or lines. The first one makes seals, and each is accepted, so rolling restarts
change a secret: `old,new`, then `new,old`, and `new` alone once the jobs from before have ended, since their records
carry the old one. `off` alone turns seals off on purpose. `off` behind secrets accepts records without a seal too, for
the jobs of a cluster that gets its first secret.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from holdfast.services.kernel.errors import HoldfastError
from holdfast.services.log.seal.private import refused
from holdfast.services.log.seal.seal import SHORTEST_SECRET, Keyring

SECRET, SECRET_FILE = "HOLDFAST_CLUSTER_SECRET", "HOLDFAST_CLUSTER_SECRET_FILE"
OFF = "off"
HOW = (
    f"make one: `openssl rand -hex 32 > cluster.secret && chmod 600 cluster.secret`, and set "
    f"{SECRET_FILE}=$PWD/cluster.secret for every process and command of the cluster"
)


class SecretUnusable(HoldfastError):
    """The cluster's secret cannot be used; the message names the fix."""


def keyring(environment: Mapping[str, str] = os.environ) -> Keyring | None:
    """The secrets of the environment; None if records are not sealed. Raises SecretUnusable."""
    found = _secrets(environment)
    given = [secret for secret in found if secret != OFF]
    short = next((secret for secret in given if len(secret) < SHORTEST_SECRET), None)
    if short is not None:
        raise SecretUnusable(f"the cluster's secret has {len(short)} characters, less than {SHORTEST_SECRET}: {HOW}")
    return Keyring(given, unsealed=OFF in found) if given else None


def is_said(environment: Mapping[str, str] = os.environ) -> bool:
    """True if a secret, or `off`, is set. Raises SecretUnusable."""
    return bool(_secrets(environment))


def readable_by_others(file: Path | None) -> bool:
    """True if the file exists and users other than its owner may read it."""
    return file is not None and file.exists() and bool(file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))


def secret_file(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The file with the cluster's secret; None if no file is set."""
    file = environment.get(SECRET_FILE)
    return Path(file) if file else None


def _secrets(environment: Mapping[str, str]) -> list[str]:
    text, file = environment.get(SECRET, ""), environment.get(SECRET_FILE, "")
    if text and file:
        raise SecretUnusable(f"{SECRET} and {SECRET_FILE} are both set: leave one out")
    if file:
        text = _read(Path(file))
    return [secret for part in text.splitlines() for one in part.split(",") if (secret := one.strip())]


def _read(file: Path) -> str:
    try:
        text = file.read_text()
    except PermissionError:
        raise SecretUnusable(f"the cluster's secret cannot be read: {refused(file)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SecretUnusable(f"the cluster's secret cannot be read: {error}. {HOW}") from None
    if not text.strip():
        raise SecretUnusable(f"{file} holds no secret: {HOW}")
    return text
