"""Settings of a recovery process, from HOLDFAST_* variables."""

from __future__ import annotations

import secrets
from typing import Literal

from pydantic import Field

from holdfast.services.diagnostics.settings import Variables
from holdfast.services.kernel.liveness.grace import ADAPTIVE, Grace
from holdfast.services.process.settings import DeciderSettings


class RecoveryOptions(Variables):
    """Settings that a cluster hands on to its recovery replicas."""

    grace: Grace = ADAPTIVE
    balance_calm_s: float = Field(
        10.0,
        ge=0,
        le=86_400,
        description="calm needed before a unit moves off a worker with more than its share; 0: none ever does",
    )
    reassign: Literal["half", "literal", "off"] = Field(
        "half",
        description="standbys that move to other workers once a rebalance period: half of the difference between two "
        "backup groups, all of it (literal: as the paper prints it, to and fro), or none (off)",
    )
    reassign_least_ms: float = Field(
        50.0, ge=0, le=3_600_000, description="expected recovery by which two backup groups must differ for that"
    )


class RecoverySettings(DeciderSettings, RecoveryOptions):
    """Settings of a recovery replica, needed before it reads its first record."""

    recovery: str = Field(
        default_factory=lambda: f"recovery-{secrets.token_hex(4)}", description="of this replica, never used twice"
    )
    proof_batches: int = Field(
        100,
        ge=1,
        le=1_000_000,
        description="so many batches of a copy with other versions must equal those of its leader before it may lead",
    )
