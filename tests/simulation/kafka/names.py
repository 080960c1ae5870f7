"""The topics of a simulated cluster, and what each is for."""

from __future__ import annotations

from holdfast.schemas.topics import ClusterTopics

TOPICS = ClusterTopics("sim")


def kind_of(topic: str) -> str:
    """The last word of its name; data for frames, source and sink for the user's."""
    if not topic.startswith(f"{TOPICS.prefix}."):
        return "sink" if topic.startswith("out-") else "source"
    words = topic.split(".")
    return next((kind for kind in ("data", "savepoints") if kind in words), words[-1])


def replayed(topic: str) -> bool:
    """True if a replay, or a checker, reads it, of the topics of a job."""
    own = topic.startswith(f"{TOPICS.prefix}.")
    of_spark = ".commits." in topic or ".rows." in topic
    return own and (of_spark or kind_of(topic) in ("cuts", "delivered", "progress", "dead-letters", "savepoints"))


def profile_of(seed: str) -> str:
    """Under which a history was drawn, by the name of its seed."""
    return seed.partition("-")[2]
