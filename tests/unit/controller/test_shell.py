"""What surrounds the core in a process: the backlog, appends that are not answered at once, security settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import faust
import pytest

from holdfast.schemas.events import Event
from holdfast.schemas.topics import Partition
from holdfast.services.controller.core.actions import PublishEvent
from holdfast.services.controller.core.events import Done, Failed
from holdfast.services.controller.record_writer import RecordWriter
from holdfast.services.controller.settings import ControllerSettings
from holdfast.services.kernel.errors import Retriable
from holdfast.services.log.faust.credentials import UnknownSecurity, credentials
from holdfast.services.log.late.backlog import Backlog
from holdfast.services.log.protocol import Delivered, Log

A, B = Partition("a", 0), Partition("b", 0)


# -- backlog ----------------------------------------------------------------------------------------------------------


def test_the_backlog_is_over_when_every_partition_is_read_to_its_end_of_the_start() -> None:
    backlog = Backlog({A: 0, B: 5}, {A: 2, B: 6})
    backlog.read(A, 0)
    backlog.read(B, 5)
    assert backlog.left == [A]
    backlog.read(A, 1)
    backlog.read(A, 2)
    assert backlog.left == []


def test_an_empty_partition_is_no_backlog() -> None:
    assert Backlog({A: 0, B: 7}, {A: 0, B: 7}).left == []


def test_records_that_were_deleted_before_they_were_read_hold_nobody_up() -> None:
    backlog = Backlog({A: 0, B: 0}, {A: 2, B: 9})
    backlog.trimmed({A: 1, B: 9})
    assert backlog.left == [A]
    backlog.read(A, 7)
    assert backlog.left == []


# -- appends ----------------------------------------------------------------------------------------------------------


class Broker:
    """A log whose appender answers when the test says so."""

    def __init__(self) -> None:
        self.appenders = 0
        self.due: list[Callable[[Exception | None], None]] = []
        self.refuses = False

    def appender(self, name: str) -> Broker:
        self.appenders += 1
        return self

    def append(self, partition: Partition, value: bytes, *, key: bytes | None, done: Delivered) -> None:
        if self.refuses:
            raise Retriable("Open a new appender")
        self.due.append(lambda error: done(error, 0))

    def answer(self, error: Exception | None = None) -> None:
        due, self.due = self.due, []
        for done in due:
            done(error)

    def flush(self, timeout_s: float) -> None:
        if self.due:
            raise Retriable("no answer")

    def poll(self) -> None:
        pass

    def close(self) -> None:
        pass


ACTION = PublishEvent(Event(0, "x"))


def test_a_record_without_an_answer_is_neither_done_nor_failed() -> None:
    broker = Broker()
    appending = RecordWriter(cast(Log, broker))
    appending.append(ACTION, A, b"")
    assert appending.outcomes() == []
    assert appending.unanswered == 1
    broker.answer()
    assert appending.outcomes() == [Done(ACTION)]
    assert appending.unanswered == 0


def test_a_record_that_was_not_delivered_has_failed() -> None:
    broker = Broker()
    appending = RecordWriter(cast(Log, broker))
    appending.append(ACTION, A, b"")
    broker.answer(Retriable("disk full"))
    assert appending.outcomes() == [Failed(ACTION, "disk full")]


def test_an_appender_that_refuses_is_replaced() -> None:
    broker = Broker()
    appending = RecordWriter(cast(Log, broker))
    broker.refuses = True
    appending.append(ACTION, A, b"")
    assert appending.outcomes() == [Failed(ACTION, "Open a new appender")]
    assert (broker.appenders, appending.unanswered) == (2, 0)


# -- settings ---------------------------------------------------------------------------------------------------------


def test_without_security_settings_the_client_needs_no_credentials() -> None:
    assert credentials({}) is None
    assert credentials({"client.rack": "a"}) is None


def test_sasl_and_tls_settings_of_the_other_clients_serve_faust_too() -> None:
    sasl = credentials(
        {
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "me",
            "sasl.password": "secret",
        }
    )
    assert isinstance(sasl, faust.SASLCredentials)
    assert (sasl.username, sasl.password, sasl.mechanism.value) == ("me", "secret", "SCRAM-SHA-512")
    assert sasl.ssl_context is not None
    plain = credentials({"security.protocol": "SASL_PLAINTEXT", "sasl.username": "me", "sasl.password": "x"})
    assert isinstance(plain, faust.SASLCredentials)
    assert plain.ssl_context is None
    assert isinstance(credentials({"security.protocol": "SSL"}), faust.SSLCredentials)


def test_a_certificate_need_not_be_checked_if_the_user_says_so() -> None:
    off = {"security.protocol": "SSL", "enable.ssl.certificate.verification": "false"}
    unchecked = credentials(off)
    assert isinstance(unchecked, faust.SSLCredentials)
    assert not unchecked.context.check_hostname


@pytest.mark.parametrize(
    "settings",
    [{"security.protocol": "KERBEROS"}, {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}],
)
def test_client_settings_that_faust_cannot_take_are_said_at_the_start(settings: dict[str, str]) -> None:
    with pytest.raises(UnknownSecurity, match=r"GSSAPI|KERBEROS"):
        credentials(settings)


def test_plugins_are_a_list_between_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_PLUGINS", " my_package.scoring, other,")
    assert ControllerSettings().allow == ["my_package.scoring", "other"]


def test_every_process_has_a_name_of_its_own() -> None:
    assert ControllerSettings().controller != ControllerSettings().controller
