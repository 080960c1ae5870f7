"""The feed folds once for all viewers, rests while nobody looks, and heals by itself once Kafka answers again."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from holdfast.schemas.topics import Partition
from holdfast.services.console import feed as feeds
from holdfast.services.console.feed import REST_S, Feed
from holdfast.services.kernel.errors import Retriable
from holdfast.services.view import live as views
from holdfast.services.view.live import LiveView, Picture
from tests.support.deadlines import HANG_S
from tests.support.shown_cluster import ShownCluster


class Site:
    """A feed whose clock is stopped until a test moves it. begun, ended: views that it has opened and closed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cluster, self.now_s = ShownCluster(), 0.0
        self.begun, self.ended = threading.Semaphore(0), threading.Semaphore(0)
        begin, end = LiveView.__init__, LiveView.close

        def began(live: LiveView, door: object) -> None:
            begin(live, door)  # type: ignore[arg-type]
            self.begun.release()

        def closed(live: LiveView) -> None:
            end(live)
            self.ended.release()

        monkeypatch.setattr(LiveView, "__init__", began)
        monkeypatch.setattr(LiveView, "close", closed)
        monkeypatch.setattr(feeds, "AGAIN_S", 0.01)
        self.feed = Feed(self.cluster.door, lambda: self.now_s)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    made = Site(monkeypatch)
    made.feed.start()
    yield made
    made.feed.close()


def test_the_feed_reads_only_while_somebody_looks(site: Site) -> None:
    assert not site.begun.acquire(timeout=0.05), "nobody has looked"
    first, second = site.feed.wait(HANG_S), site.feed.wait(HANG_S)
    assert first is not None
    assert second is not None
    assert site.begun.acquire(timeout=HANG_S)
    site.now_s += REST_S + 1
    assert site.ended.acquire(timeout=HANG_S), "it rests"
    assert not site.begun.acquire(blocking=False), "several looks made one view"
    again = site.feed.wait(HANG_S)
    assert again is not None
    assert again.number > second.number
    assert site.begun.acquire(timeout=HANG_S)


def test_the_feed_says_that_kafka_is_away_and_continues_when_kafka_is_back(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = threading.Event()

    def away(*_: object) -> dict[object, int]:
        told.set()
        raise Retriable("no broker answers")

    with monkeypatch.context() as broken:
        broken.setattr(site.cluster.door.log, "offsets", away)
        assert site.feed.look() is None
        assert told.wait(HANG_S)
        assert site.feed.wait(0.2) is None
        assert site.feed.broken == "no broker answers"
    assert site.feed.wait(HANG_S) is not None
    assert site.feed.broken == ""


def test_pictures_continue_while_kafka_owes_an_answer(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert site.feed.wait(HANG_S) is not None
    log, answers, asked, taken = site.cluster.door.log, threading.Event(), threading.Event(), threading.Semaphore(0)
    known, take = log.offsets, LiveView.picture

    def late(*of: object) -> dict[Partition, int]:
        asked.set()
        assert answers.wait(HANG_S)
        return known(*of)  # type: ignore[arg-type]

    def picture(live: LiveView, *of: int) -> Picture:
        taken.release()
        return take(live, *of)

    monkeypatch.setattr(views, "ENDS_S", 0.0)
    monkeypatch.setattr(feeds, "LEAST_S", 0.0)
    monkeypatch.setattr(feeds, "SHARE", float("inf"))
    monkeypatch.setattr(LiveView, "picture", picture)
    with monkeypatch.context() as slow:
        slow.setattr(log, "offsets", late)
        slow.setattr(views, "SAID_S", 0.0)
        site.now_s += 1.0
        assert asked.wait(HANG_S)
        for _ in range(3):
            assert taken.acquire(timeout=HANG_S), "pictures come"
        assert site.feed.broken.startswith("Kafka has not answered for ")
    answers.set()
    while taken.acquire(blocking=False):
        pass
    for _ in range(3):
        assert taken.acquire(timeout=HANG_S)
    assert site.feed.broken == ""


def test_an_event_is_shown_before_the_next_picture(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of a large job take long, so that they are rare; a takeover does not wait for the next one."""
    taken, take = threading.Semaphore(0), LiveView.picture

    def picture(live: LiveView, *of: int) -> Picture:
        made = take(live, *of)
        taken.release()
        return made

    monkeypatch.setattr(LiveView, "picture", picture)
    monkeypatch.setattr(feeds, "SHARE", 1e-9)
    monkeypatch.setattr(feeds, "PROMPT_SHARE", float("inf"))
    assert site.feed.wait(HANG_S) is not None
    assert taken.acquire(timeout=HANG_S)
    site.now_s += 1.0
    while taken.acquire(timeout=0.3):  # of records that were there when it began
        site.now_s += 1.0
    site.cluster.beat()
    assert not taken.acquire(timeout=0.3), "a heartbeat alone makes no picture yet"
    site.cluster.fail()
    assert taken.acquire(timeout=HANG_S), "a takeover makes one at once"
