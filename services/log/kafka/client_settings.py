"""librdkafka properties of every Kafka client, and properties of the registry's client, from environment variables.

The prefixes are HOLDFAST_KAFKA_CLIENT_ and HOLDFAST_REGISTRY_CLIENT_. A file keeps a secret out of the environment:
HOLDFAST_KAFKA_CLIENT_SASL_PASSWORD_FILE names one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from holdfast.services.log.seal.private import refused
from holdfast.services.log.seal.secret import SecretUnusable

CLIENT_PREFIX, FILE = "HOLDFAST_KAFKA_CLIENT_", "_FILE"
REGISTRY_PREFIX = "HOLDFAST_REGISTRY_CLIENT_"
SECRETS = ("password", "secret", "key.pem", "oauthbearer.config", "sasl.jaas.config", "user.info", "auth.token")
"""Words in the names of properties that hold a secret."""


def client_settings(environment: Mapping[str, str] = os.environ, prefix: str = CLIENT_PREFIX) -> dict[str, str]:
    """Properties for the client: HOLDFAST_KAFKA_CLIENT_SASL_MECHANISM sets sasl.mechanism. Raises SecretUnusable."""
    named = {name.removeprefix(prefix): v for name, v in environment.items() if name.startswith(prefix)}
    files = {name.removesuffix(FILE): Path(v) for name, v in named.items() if is_secret_file(name)}
    if twice := sorted(files.keys() & named.keys()):
        variable = f"{prefix}{twice[0]}"
        raise SecretUnusable(f"{variable} and {variable}{FILE} are both set: leave one out")
    values = {name: v for name, v in named.items() if not is_secret_file(name)}
    values |= {name: _read(f"{prefix}{name}{FILE}", file) for name, file in files.items()}
    return {_property(name): value for name, value in values.items()}


def secret_files(environment: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """The files that hold secrets of the clients, by variable."""
    return {
        name: Path(file)
        for name, file in environment.items()
        for prefix in (CLIENT_PREFIX, REGISTRY_PREFIX)
        if name.startswith(prefix) and is_secret_file(name.removeprefix(prefix))
    }


def is_secret(property: str) -> bool:
    """True if the property holds a secret, which must not be shown."""
    return any(word in property for word in SECRETS)


def is_secret_file(name: str) -> bool:
    """True if a variable, without its prefix, names the file of a secret; librdkafka has file properties of its own."""
    return name.endswith(FILE) and is_secret(_property(name.removesuffix(FILE)))


def _property(name: str) -> str:
    return name.lower().replace("_", ".")


def _read(variable: str, file: Path) -> str:
    """The text of a secret file without the line end behind it; a key in PEM keeps its other line ends."""
    try:
        text = file.read_text()
    except PermissionError:
        raise SecretUnusable(f"{variable}: the secret cannot be read: {refused(file)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SecretUnusable(f"{variable}: the secret cannot be read: {error}") from None
    if not text.strip():
        raise SecretUnusable(f"{variable}: {file} is empty")
    return text.removesuffix("\n").removesuffix("\r")
