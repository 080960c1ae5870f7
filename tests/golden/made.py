"""Streams that are made, with the shape and the oddities of recorded ones: the same bytes on every machine.

Each function returns what its namesake in recordings.py does, in fewer rows, so that a clean clone skips no test.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from random import Random

import polars as pl

_SPACED, _ZULU = "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"
_HOSTS = ("groucho-oregon", "groucho-tokyo", "groucho-eu", "zeppo-norcal", "groucho-sa", "groucho-us-east")
PACKETS, REQUESTS, POSTS, SENSORS = 30_000, 8_000, 2_000, 40
FURTHEST_BACK_S = 1_345
"""Of a packet behind one that was written before it."""


@lru_cache(maxsize=1)
def packets() -> pl.DataFrame:
    """In bursts and pauses, a quarter of them written late; few sources send most of them, pings have no ports."""
    random, now, rows = Random("packets"), datetime(2013, 3, 3, 21, 53, 59), []
    for _ in range(PACKETS):
        now += timedelta(seconds=0 if random.random() < 0.6 else int(random.expovariate(1 / 30)))
        behind = random.randint(1, FURTHEST_BACK_S) if random.random() < 0.25 else 0
        proto = random.choices(("TCP", "UDP", "ICMP"), (70, 20, 10))[0]
        ping = proto == "ICMP"
        rows.append(
            {
                "at": (now - timedelta(seconds=behind)).strftime(_SPACED),
                "host": random.choice(_HOSTS),
                "src": 1_000_000_007 * _skewed(random, 2_500) % 2**32,
                "proto": proto,
                "type": random.choice((0, 3, 8)) if ping else None,
                "spt": None if ping else random.choice((6000, random.randint(1024, 65535))),
                "dpt": None if ping else random.choice((22, 80, 443, 1433, 3389, 5060, random.randint(1, 65535))),
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


@lru_cache(maxsize=1)
def requests() -> pl.DataFrame:
    """A day of a web server; now and then one is written some seconds late."""
    random, now, rows = Random("requests"), datetime(1995, 8, 29, 23, 53, 25), []
    for _ in range(REQUESTS):
        now += timedelta(seconds=int(random.expovariate(1 / 10)))
        behind = random.randint(1, 30) if random.random() < 0.003 else 0
        page = _skewed(random, 300)
        rows.append(
            {
                "host": f"host-{_skewed(random, 600)}.example",
                "path": f"/page-{page}.html",
                "status": random.choices((200, 304, 404), (88, 9, 3))[0],
                "bytes": None if random.random() < 0.05 else (1 + page) * 17 % 4_096,
                "at": (now - timedelta(seconds=behind)).strftime(_ZULU),
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


@lru_cache(maxsize=1)
def posts() -> pl.DataFrame:
    """Some without any hashtag, some with the same one as most others."""
    random, now, rows = Random("posts"), datetime(2020, 12, 12, 11, 55, 28), []
    for _ in range(POSTS):
        now += timedelta(seconds=int(random.expovariate(1 / 3_600)))
        tags = [f"tag{_skewed(random, 200)}" for _ in range(random.choice((0, 1, 1, 2, 3, 4, 6)))]
        rows.append({"at": now.strftime(_SPACED), "hashtags": tags})
    return pl.DataFrame(rows, schema={"at": pl.String, "hashtags": pl.List(pl.String)})


@lru_cache(maxsize=1)
def sensors() -> pl.DataFrame:
    kinds = ("MAJOR_ROAD", "STREET", "LINK_ROAD")
    rows = [(158_000 + 37 * n, kinds[n % 3], 30 + 10 * (n % 6)) for n in range(SENSORS)]
    return pl.DataFrame(rows, schema=["sensor", "road_type", "free_flow_kmh"], orient="row")


@lru_cache(maxsize=1)
def traffic() -> pl.DataFrame:
    """Three days of five-minute counts; in spells traffic is slow, at times a sensor says nothing."""
    random, start, rows = Random("traffic"), datetime(2014, 8, 1), []
    known = sensors().rows()
    slow = dict.fromkeys((sensor for sensor, *_ in known), False)
    for step in range(3 * 288):
        at = (start + timedelta(minutes=5 * step)).strftime(_ZULU)
        for sensor, _, free_kmh in known:
            if random.random() < 0.02:
                continue
            slow[sensor] = random.random() < (0.8 if slow[sensor] else 0.02)
            vehicles = random.randint(0, 40)
            top = free_kmh // 2 - 1 if slow[sensor] else free_kmh
            speed = random.randint(1 if slow[sensor] else free_kmh // 2, top) if vehicles else 0
            rows.append((at, sensor, vehicles, speed))
    return pl.DataFrame(rows, schema=["at", "sensor", "vehicles", "speed"], orient="row")


@lru_cache(maxsize=1)
def weather() -> pl.DataFrame:
    """Every ten to thirty minutes of the same days; no wind at times."""
    random, now, rows = Random("weather"), datetime(2014, 8, 1), []
    while now < datetime(2014, 8, 4):
        wind = 0.0 if random.random() < 0.1 else round(random.uniform(0.1, 20.0), 1)
        rows.append((random.randint(30, 100), random.randint(8, 28), wind, now.strftime(_SPACED)))
        now += timedelta(minutes=random.choice((10, 10, 20, 30)))
    return pl.DataFrame(rows, schema=["hum", "tempm", "wspdm", "at"], orient="row")


def _skewed(random: Random, kinds: int) -> int:
    """One of so many, the first ones by far the most often."""
    return int(kinds * random.random() ** 3)
