"""librdkafka's security properties, converted for Faust's Kafka client.

Source: JOBS "the Kafka client's security settings (SASL, TLS) passed through".
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import faust
from faust.types.auth import CredentialsT

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class UnknownSecurity(ValueError):
    """A property without a counterpart in Faust's client; the message names it and the accepted values."""


def credentials(settings: Mapping[str, str]) -> CredentialsT | None:
    """The credentials for Faust's client; None for plaintext. Raises UnknownSecurity."""
    protocol = settings.get("security.protocol", "plaintext").upper()
    if protocol == "PLAINTEXT":
        return None
    if protocol == "SSL":
        return faust.SSLCredentials(context=_tls(settings))
    if protocol not in ("SASL_PLAINTEXT", "SASL_SSL"):
        raise UnknownSecurity(f"security.protocol {protocol} is not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL")
    mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms", "PLAIN")).upper()
    if mechanism not in MECHANISMS:
        raise UnknownSecurity(f"the controller does not take sasl.mechanism {mechanism}: use {', '.join(MECHANISMS)}")
    return faust.SASLCredentials(
        username=settings.get("sasl.username"),
        password=settings.get("sasl.password"),
        mechanism=mechanism,
        ssl_context=_tls(settings) if protocol == "SASL_SSL" else None,
    )


def _tls(settings: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.get("ssl.ca.location"), cadata=settings.get("ssl.ca.pem"))
    if settings.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif settings.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if "ssl.certificate.location" in settings:
        context.load_cert_chain(
            settings["ssl.certificate.location"], settings.get("ssl.key.location"), settings.get("ssl.key.password")
        )
    return context
