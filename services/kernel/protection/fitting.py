"""The checkpoint policies that do not work with a fault-tolerance scheme.

Source: MECHANISMS C5 and C6. The same rule holds at submission and at each change of a policy or a scheme.
"""

from __future__ import annotations

ACTIVE = ("active-standby", "active-replication", "adaptive")
"""Schemes under which a standby processes, too, or may, so that a takeover repeats nothing."""


def unfit(policy: str, scheme: str, where: str = "") -> str:
    """The reason why a unit under this scheme cannot follow the policy; empty if it can.

    where: the owner of the scheme, for the message.
    """
    if policy != "idle-minmax" or scheme not in ACTIVE:
        return ""
    at, repeats = f" ({where})" if where else "", "may repeat" if scheme == "adaptive" else "repeats"
    return f"idle-minmax captures what a standby would have to repeat, and under {scheme}{at} it {repeats} nothing"
