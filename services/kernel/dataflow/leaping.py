"""Leaping: the record that moved a source's watermark furthest, which is what makes the records behind it late."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Leap:
    """A record whose event time is ahead of all before it. by_us: how far, in microseconds.

    behind: records after it in its partition that are older than it by more than half of that.
    """

    topic: str
    partition: int
    offset: int
    time_us: int
    by_us: int
    behind: int


def widest(topic: str, partition: int, offsets: np.ndarray, times_us: np.ndarray) -> Leap | None:
    """The widest leap of a partition that left records behind; None: times only grow, or all are one.

    Args:
        offsets, times_us: of its records with rows, in offset order.
    """
    if len(times_us) < 2:
        return None
    newest = np.maximum.accumulate(times_us)
    leaps = times_us[1:] - newest[:-1]
    order = np.argsort(-leaps, kind="stable")
    for at in order[:100].tolist():
        by_us = int(leaps[at])
        if by_us <= 0:
            return None
        behind = int((times_us[at + 2 :] < times_us[at + 1] - by_us // 2).sum())
        if behind:
            return Leap(topic, partition, int(offsets[at + 1]), int(times_us[at + 1]), by_us, behind)
    return None
