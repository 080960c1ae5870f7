"""Checkpoint policies that do not work with a fault-tolerance scheme.

Source: MECHANISMS C5 and C6. At submission, when a policy is changed and when a scheme is, the rule is this one.
"""

from __future__ import annotations

ACTIVE = ("active-standby", "active-replication", "adaptive")
"""Under these a standby processes, too, or may, so a takeover repeats nothing."""


def unfit(policy: str, scheme: str, where: str = "") -> str:
    """Why a unit under this scheme cannot follow the policy; empty if it can. where: who has the scheme."""
    if policy != "idle-minmax" or scheme not in ACTIVE:
        return ""
    at, repeats = f" ({where})" if where else "", "may repeat" if scheme == "adaptive" else "repeats"
    return f"idle-minmax captures what a standby would have to repeat, and under {scheme}{at} it {repeats} nothing"
