"""The topics of a simulated cluster, and what each is for."""

from __future__ import annotations

from schemas.topics import ClusterTopics

TOPICS = ClusterTopics("sim")


def kind_of(topic: str) -> str:
    """The last word of its name; data for frames, source and sink for the user's."""
    if not topic.startswith(f"{TOPICS.prefix}."):
        return "sink" if topic.startswith("out-") else "source"
    words = topic.split(".")
    return "data" if "data" in words else words[-1]
