"""Persons, auctions and bids in Nexmark's proportions: of 50 events in a row one person, three auctions, 46 bids.

Source: the generator of Nexmark in Apache Beam. Hot items, the ids ahead of the newest one, prices and lifetimes of
auctions are drawn as there; texts come from a pool, so that a million events take a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from holdfast.services.kernel.codecs.fields import stream_schema

PERSONS = {
    "id": "int",
    "name": "string",
    "email": "string",
    "card": "string",
    "city": "string",
    "state": "string",
    "at": "timestamp",
    "extra": "string",
}
AUCTIONS = {
    "id": "int",
    "item": "string",
    "description": "string",
    "initial_bid": "int",
    "reserve": "int",
    "at": "timestamp",
    "expires": "timestamp",
    "seller": "int",
    "category": "int",
    "extra": "string",
}
BIDS = {
    "auction": "int",
    "bidder": "int",
    "price": "int",
    "channel": "string",
    "url": "string",
    "at": "timestamp",
    "extra": "string",
}
FIELDS = {"persons": PERSONS, "auctions": AUCTIONS, "bids": BIDS}
IN_A_ROW = 50
AUCTIONS_IN_A_ROW = 3
FIRST_ID = 1_000
FIRST_CATEGORY, CATEGORIES = 10, 5
IN_FLIGHT = 100
"""Auctions that bids are made on: the newest ones."""
ACTIVE = 1_000
"""Persons that bid and sell: the newest ones."""
AHEAD = 10
"""Ids beyond the newest one that are drawn, too: their auction or person comes later."""
HELD_EVENTS = 60_000
"""Number of events within which all comes that belongs together: the oldest active person is 50,000 back."""
START_US = 1_600_000_000_000_000
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent")
NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
Column = pl.Series | np.ndarray


@dataclass(frozen=True, slots=True)
class Events:
    """A stream of events.

    count: number of events of all three kinds.
    per_s: events in a second of event time.
    """

    seed: int
    count: int
    per_s: int
    frames: dict[str, pl.DataFrame] = field(init=False)
    """Rows of each kind with the column of the event time, in the order of the events."""
    numbers: dict[str, np.ndarray] = field(init=False)
    """Positions of these rows in the stream."""

    def __post_init__(self) -> None:
        every = np.arange(self.count)
        place = every % IN_A_ROW
        kinds = {"persons": place == 0, "auctions": (place > 0) & (place <= AUCTIONS_IN_A_ROW)}
        kinds["bids"] = place > AUCTIONS_IN_A_ROW
        numbers = {kind: every[chosen] for kind, chosen in kinds.items()}
        draw = _Draw(np.random.default_rng(self.seed), self.per_s)
        frames = {
            "persons": draw.persons(numbers["persons"]),
            "auctions": draw.auctions(numbers["auctions"]),
            "bids": draw.bids(numbers["bids"]),
        }
        object.__setattr__(self, "numbers", numbers)
        object.__setattr__(self, "frames", frames)

    @property
    def held_s(self) -> int:
        """Seconds of event time that HELD_EVENTS take."""
        return -(-HELD_EVENTS // self.per_s)

    def batches(self, size: int) -> Iterator[tuple[int, dict[str, pl.DataFrame]]]:
        """The rows of each kind among so many events in a row, and the newest event time, in microseconds."""
        for start in range(0, self.count, size):
            end = min(start + size, self.count)
            bounds = {kind: np.searchsorted(at, (start, end)) for kind, at in self.numbers.items()}
            rows = {kind: self.frames[kind][int(low) : int(high)] for kind, (low, high) in bounds.items()}
            yield int(_time_us(np.array(end - 1), self.per_s)), rows


def _time_us(numbers: np.ndarray, per_s: int) -> np.ndarray:
    """Event times, all different."""
    return np.asarray(START_US + numbers * 1_000_000 // per_s)


class _Draw:
    """Draws the columns of rows, given their places in the stream."""

    def __init__(self, chance: np.random.Generator, per_s: int) -> None:
        self._chance = chance
        self._per_s = per_s
        letters = np.array(list("abcdefghijklmnopqrstuvwxyz    "))
        self._texts = ["".join(chance.choice(letters, length)) for length in chance.integers(20, 120, 1_000)]

    def persons(self, numbers: np.ndarray) -> pl.DataFrame:
        count, ids = len(numbers), FIRST_ID + numbers // IN_A_ROW
        names = self._among(NAMES, count)
        columns: list[Column] = [ids, names, names + "@example.com", self._texts_of(count)]
        columns += [self._among(CITIES, count), self._among(STATES, count)]
        return self._frame("persons", numbers, [*columns, _time_us(numbers, self._per_s), self._texts_of(count)])

    def auctions(self, numbers: np.ndarray) -> pl.DataFrame:
        count, at = len(numbers), _time_us(numbers, self._per_s)
        ids = FIRST_ID + numbers // IN_A_ROW * AUCTIONS_IN_A_ROW + numbers % IN_A_ROW - 1
        initial = self._prices(count)
        horizon_us = IN_FLIGHT * IN_A_ROW // AUCTIONS_IN_A_ROW * 1_000_000 // self._per_s
        expires = at + 1_000 + self._chance.integers(0, 2 * horizon_us, count)
        hot = numbers // IN_A_ROW // 100 * 100
        sellers = FIRST_ID + np.where(self._hot(4, count), hot, self._persons_of(numbers))
        categories = FIRST_CATEGORY + self._chance.integers(0, CATEGORIES, count)
        columns: list[Column] = [ids, self._texts_of(count), self._texts_of(count)]
        columns += [initial, initial + self._prices(count), at]
        return self._frame("auctions", numbers, [*columns, expires, sellers, categories, self._texts_of(count)])

    def bids(self, numbers: np.ndarray) -> pl.DataFrame:
        count, newest = len(numbers), numbers // IN_A_ROW * AUCTIONS_IN_A_ROW + AUCTIONS_IN_A_ROW - 1
        oldest = np.maximum(newest - IN_FLIGHT, 0)
        others = oldest + self._chance.integers(0, newest - oldest + 1 + AHEAD)
        auctions = FIRST_ID + np.where(self._hot(2, count), newest // 100 * 100, others)
        hot = numbers // IN_A_ROW // 100 * 100 + 1
        bidders = FIRST_ID + np.where(self._hot(4, count), hot, self._persons_of(numbers))
        channels, urls = self._channels(count)
        columns: list[Column] = [auctions, bidders, self._prices(count), channels, urls, _time_us(numbers, self._per_s)]
        return self._frame("bids", numbers, [*columns, self._texts_of(count)])

    def _hot(self, ratio: int, count: int) -> np.ndarray:
        return self._chance.integers(0, ratio, count) > 0

    def _persons_of(self, numbers: np.ndarray) -> np.ndarray:
        """Draws active persons, and some that come next."""
        known = numbers // IN_A_ROW + 1
        active = np.minimum(known, ACTIVE)
        return np.asarray(known - active + self._chance.integers(0, active + AHEAD))

    def _prices(self, count: int) -> np.ndarray:
        """Cents, with as many of two digits as of seven."""
        return np.round(10 ** (self._chance.random(count) * 6) * 100).astype(np.int64)

    def _channels(self, count: int) -> tuple[pl.Series, pl.Series]:
        """Channels and URLs: half of the channels are famous; nine in ten of the 10,000 others are named in the URL."""
        known = self._chance.integers(0, len(CHANNELS), count)
        number = self._chance.integers(0, 10_000, count)
        hot = self._hot(2, count)
        path = pl.Series([f"https://www.nexmark.com/{a}/{b}/{a}{b}/item.htm?query=1" for a in "abcde" for b in "vwxyz"])
        base = path[self._chance.integers(0, len(path), count)]
        table = pl.DataFrame({"base": base, "known": known, "number": number, "hot": hot, "n": np.arange(count)})
        text = pl.col("number").cast(pl.String)
        named = pl.concat_str("base", pl.lit("&channel_id="), text)
        found = table.select(
            pl.when("hot")
            .then(pl.lit(pl.Series(CHANNELS)).gather("known"))
            .otherwise("channel-" + text)
            .alias("channel"),
            pl.when(pl.col("hot") | (pl.col("number") % 10 == 0)).then("base").otherwise(named).alias("url"),
        )
        return found["channel"], found["url"]

    def _among(self, texts: Sequence[str], count: int) -> pl.Series:
        return pl.Series(texts, dtype=pl.String)[self._chance.integers(0, len(texts), count)]

    def _texts_of(self, count: int) -> pl.Series:
        return self._among(self._texts, count)

    def _frame(self, kind: str, numbers: np.ndarray, columns: Sequence[Column]) -> pl.DataFrame:
        schema = stream_schema(FIELDS[kind])
        every = zip(schema.items(), [*columns, _time_us(numbers, self._per_s)], strict=True)
        return pl.DataFrame([pl.Series(name, values).cast(dtype) for (name, dtype), values in every])
