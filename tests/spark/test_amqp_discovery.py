"""Goal: a pattern stands for the queues whose whole names it matches and that can be read as such,
however many there are; whatever the HTTP API does instead of listing them is an error that names
the option, in bounded time and memory, without a password.

Method: a small HTTP server that answers as RabbitMQ was seen to, or goes wrong; our own broker, or
a port where nobody listens, is the broker beside it. No Spark session.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluicemq.errors import Refused, SluiceError
from sluicemq.spark.connecting import AmqpError
from sluicemq.spark.discovery import QueueDiscovery, find_queues
from sluicemq.spark.management import PAGE_BYTES_MAX, PAGE_ROWS, fixed_begin
from sluicemq.spark.options import Options
from spark.http_api import Answer, Server, item, trickle
from support.broker import Target
from tls.pki import make_pki

NOBODY = "amqp://guest:guest@127.0.0.1:1/"
SHORT = {"timeout": "300", "reconnectFor": "0"}
IN_TIME_S = 240
"""A machine with much else to do; without a bound these wait for minutes, or for ever."""


@pytest.fixture
def api() -> Iterator[Server]:
    with Server() as server:
        yield server


def options(api: Server | str, pattern: str = "o.*", **more: str) -> Options:
    url = api if isinstance(api, str) else api.url
    given = {"uri": NOBODY, "queuePattern": pattern, "managementUrl": url, "reconnectFor": "0"}
    return Options.parse(given | more, "source")


def refusal(given: Options) -> str:
    """What is said when queues cannot be listed; never a password, and soon."""
    began = time.monotonic()
    with pytest.raises(SluiceError) as caught:
        find_queues(given)
    assert time.monotonic() - began < IN_TIME_S
    assert "secret" not in str(caught.value)
    return str(caught.value)


def test_whole_names_match_as_with_kafkas_pattern(api: Server) -> None:
    api.queues = [item(name) for name in ("orders", "orders.eu", "my.orders", "Orders.x", "oé.ß")]
    assert find_queues(options(api, r"orders(\..*)?")) == ("orders", "orders.eu")
    assert find_queues(options(api, "orders")) == ("orders",)
    assert find_queues(options(api, "(?i)ORDERS.*")) == ("Orders.x", "orders", "orders.eu")
    assert find_queues(options(api, r"..\..")) == ("oé.ß",)  # letters, not octets
    assert find_queues(options(api, "nothing")) == ()


def test_what_is_no_queue_for_all_is_left_out(api: Server) -> None:
    api.queues = [
        *(item("a.classic"), item("a.quorum", "quorum"), item("a.stream", "stream")),
        *(item("a.exclusive", exclusive=True), item("a.mqtt", "MQTT QoS 0")),
        {"name": "a.old", "arguments": {}},  # RabbitMQ 3.7 has no types
        {"name": "a.mine", "arguments": {}, "owner_pid_details": {"name": "x -> y"}},
    ]
    assert find_queues(options(api, "a.*")) == ("a.classic", "a.old", "a.quorum")


def test_all_pages_are_read(api: Server) -> None:
    names = [f"o{number:04}" for number in range(2 * PAGE_ROWS + 203)]
    api.queues = [item(name) for name in reversed(names)]
    assert list(find_queues(options(api, "o[0-9]+"))) == names
    assert [asked["page"] for asked in api.asked] == ["1", "2", "3"]
    assert {asked["page_size"] for asked in api.asked} == {str(PAGE_ROWS)}


def test_a_queue_that_pages_moved_past_is_found_the_second_time(api: Server) -> None:
    """One before it was deleted while pages were read: each after that moves up by one."""
    api.queues = [item(f"o{number:04}") for number in range(PAGE_ROWS + 10)]

    def answer(query: dict[str, str]) -> Answer:
        page = api.page(query)
        if len(api.asked) == 1:
            del api.queues[0]
        return page

    api.answer = answer
    assert f"o{PAGE_ROWS:04}" in find_queues(options(api))
    assert len(api.asked) == 4


@pytest.mark.parametrize(
    ("pattern", "begin"),
    [
        (r"orders\..*", r"orders\."),
        ("orders", "orders"),
        ("shop-1_x+y", "shop-1_x"),
        ("ab*", "a"),
        ("ab?c", "a"),
        ("ab{0,2}", "a"),
        (r"a\.*", "a"),
        ("a|b", ""),
        ("(?i)abc", ""),
        ("abc(?i)d", ""),
        (".*", ""),
        (r"\d+", ""),
        ("é.*", ""),
        ("[ab].*", ""),
    ],
)
def test_the_server_is_told_the_begin_and_no_more(api: Server, pattern: str, begin: str) -> None:
    """What it makes of a pattern is another thing than what is meant here."""
    assert fixed_begin(pattern) == begin
    find_queues(options(api, pattern))
    (asked,) = api.asked
    assert asked.get("name") == (f"^{begin}" if begin else None)
    assert asked.get("use_regex") == ("true" if begin else None)


def test_a_path_a_virtual_host_and_another_user(api: Server) -> None:
    api.queues, api.path, api.virtual_host = [item("o")], "/rabbit", "my shop/1"
    api.login = "me:s/c@ret"
    given = {"uri": "amqp://x:y@127.0.0.1:1/my%20shop%2F1"}
    url = f"http://me:s%2Fc%40ret@127.0.0.1:{api.server_port}/rabbit/"
    assert find_queues(options(url, **given)) == ("o",)
    own = given | {"user": "me", "password": "s/c@ret"}
    assert find_queues(options(f"{api.url}/rabbit", **own)) == ("o",)


BAD_GATEWAY = 502, b"<html>secret of a proxy</html>"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((401, b'{"reason":"Not management user"}'), "does not let user 'me' see .*401 Not manage"),
        ((403, b""), "does not let user 'me' see .*403;"),
        (
            (404, b'{"error":"Object Not Found","reason":"Not Found"}'),
            "has no /api/queues for .*'/'",
        ),
        ((301, b""), r"leads elsewhere \(301\), where no password is sent"),
        ((400, b'{"reason":"%s"}' % (b"x" * 10_000)), "answers 400 x{200}$"),
        ((200, b"<html>"), "gives no pages of queues"),
        ((200, b"[]"), "gives no pages of queues"),
        ((200, b"[" * 100_000), "gives no pages of queues"),
        ((200, b'{"items":[{}],"page_count":1,"filtered_count":1}'), "gives no pages of queues"),
        ((200, b'{"items":["o"],"page_count":1,"filtered_count":1}'), "gives no pages of queues"),
        ((200, b'{"items":[],"page_count":"x","filtered_count":1}'), "gives no pages of queues"),
        ((200, b" " * (PAGE_BYTES_MAX + 1)), f"a page of it is above {PAGE_BYTES_MAX} octets"),
        (BAD_GATEWAY, "answers 502"),
    ],
)
def test_an_answer_that_is_no_page_is_told(api: Server, answer: Answer, words: str) -> None:
    api.login = "me:secret"
    api.answer = lambda _query: answer
    url = f"http://me:secret@127.0.0.1:{api.server_port}"
    shown = rf"managementUrl = 'http://me:\.\.\.@127.0.0.1:{api.server_port}': "
    said = refusal(options(url))
    assert re.match(f"{shown}.*{words}", said)
    assert len(said) < 500


def test_a_password_that_is_wrong_is_not_told(api: Server) -> None:
    said = refusal(options(api, uri="amqp://me:secret@127.0.0.1:1/"))
    assert "does not let user 'me' see virtual host '/': 401 Login failed" in said


def test_lists_without_end_are_not_read(api: Server) -> None:
    body = {"items": [], "page_count": 10**9, "filtered_count": 10**12}
    api.answer = lambda _query: (200, json.dumps(body).encode())
    assert "let queuePattern begin with the letters" in refusal(options(api))
    assert len(api.asked) == 1


def test_a_server_that_is_slow_has_the_time_of_an_answer(api: Server) -> None:
    """Also one that sends an octet now and then, of which each is in time."""
    api.send = trickle
    assert "has not answered in 0.3 s (timeout)" in refusal(options(api, **SHORT))


def test_pages_have_a_time_together(api: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though each of them is in time."""
    monkeypatch.setattr("sluicemq.spark.management.PAGES_TIMEOUTS", 1)

    def answer(_query: dict[str, str]) -> Answer:
        time.sleep(0.05)
        return 200, b'{"items": [], "page_count": 400, "filtered_count": 9}'

    api.answer = answer
    assert "has not given 400 pages of queues in 1 times" in refusal(options(api, timeout="5000"))


def test_a_server_that_only_listens_has_the_time_of_an_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        for url in (f"http://127.0.0.1:{port}", f"https://127.0.0.1:{port}"):
            said = refusal(options(url, **SHORT))
            assert said.startswith(f"managementUrl = '{url}': has not answered in 0.3 s (timeout)")


def test_tls_uses_the_files_of_the_connections(api: Server, tmp_path: Path) -> None:
    """And believes nobody else, not even for the time it takes to send a password."""
    api.queues = [item("o")]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    make_pki(tmp_path).write_server().configure_cert(context)
    # Hands are shaken in the thread of the request.
    api.socket = context.wrap_socket(api.socket, True, do_handshake_on_connect=False)
    url = f"https://localhost:{api.server_port}"
    assert find_queues(options(url, cafile=str(tmp_path / "ca.pem"))) == ("o",)
    assert find_queues(options(url, verify="false")) == ("o",)
    asked = len(api.asked)
    said = refusal(options(url))
    assert said.startswith(f"managementUrl = '{url}': TLS: [SSL: CERTIFICATE_VERIFY_FAILED]")
    assert len(api.asked) == asked


def hang_up(words: bytes) -> Callable[[socket.socket], None]:
    def serve(listener: socket.socket) -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer:
                peer.recv(65_536)
                peer.sendall(words)

    return serve


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (b"AMQP\0\0\x09\x01\r\n", "what answers there does not speak HTTP"),
        (b"", "cannot be reached: "),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", "broke off in the middle"),
    ],
)
def test_what_is_no_http_server_is_told(words: bytes, told: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=hang_up(words), args=(listener,), daemon=True).start()
        assert told in refusal(options(f"http://127.0.0.1:{listener.getsockname()[1]}"))


def test_who_has_no_http_api_is_told_at_once(target: Target) -> None:
    """The broker is there, so that nothing is waited for; `reconnectFor` is five minutes."""
    given = {"uri": target.url, "reconnectFor": "300000"}
    said = refusal(options("http://127.0.0.1:1", **given))
    assert said.startswith("managementUrl = 'http://127.0.0.1:1': cannot be reached: ")
    if target.is_own:
        assert said.endswith("; SluiceMQ answers there when it is started with --management")
    else:
        assert said.endswith("RabbitMQ answers there when its management plugin is enabled")


def test_a_broker_that_is_away_too_is_waited_for() -> None:
    said = refusal(options("http://127.0.0.1:1", reconnectFor="500", retryBackoff="50"))
    assert "cannot be reached" in said
    assert "(tried " in said
    assert "reconnectFor" in said


def test_a_pattern_that_never_ends_is_told(api: Server) -> None:
    api.queues = [item("a" * 200 + "!")]
    said = refusal(options(api, "(a|aa)+"))
    assert said.startswith("queuePattern = '(a|aa)+': takes too long to be matched with 'aaa")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"managementUrl": ""}, "managementUrl = '': must be a text"),
        ({"queuePattern": "("}, r"queuePattern = '\(': is not a regular expression"),
        ({"queues": "a,b"}, "queuePattern = 'o': give it, or queues, not both"),
        ({"queueType": "stream"}, "queuePattern = 'o': is for queues; name streams by queues"),
        ({"uris": "amqp://h/a,amqp://h/b"}, "queuePattern = 'o': needs one virtual host; .* a, b"),
        ({"managementUrl": "http://u:secret@h:x/"}, r"'http://u:\.\.\.@h:x/': must be http://host"),
        (
            {"managementUrl": "http://u:secr/et@h"},
            r"managementUrl = '.*': must be http://host:port",
        ),
        ({"managementUrl": "amqp://h"}, "managementUrl = 'amqp://h': must be http://host:port or"),
        ({"managementUrl": "http://h/?x=1"}, "must be http://host:port"),
        ({"managementUrl": "https://h", "cafile": "/no/such"}, "cafile = '/no/such' cannot be"),
        ({"discoveryInterval": "1"}, "discoveryInterval = '1': must be a whole number from 100"),
        ({"minMessagesPerTrigger": "9", "prefetch": "8"}, r"minMessagesPerTrigger = 9: .*\(8\)"),
    ],
)
def test_what_cannot_be_used_is_named(given: dict[str, str], words: str) -> None:
    base = {"queuePattern": "o", "managementUrl": "http://h:15672"}
    with pytest.raises(Refused, match=words) as caught:
        Options.parse(base | given, "source")
    assert "secret" not in str(caught.value)


def test_a_pattern_needs_somebody_to_ask_and_they_a_pattern() -> None:
    words = (
        "queuePattern = 'o': needs managementUrl, for AMQP cannot list queues.*serve --management"
    )
    with pytest.raises(Refused, match=words):
        Options.parse({"queuePattern": "o"}, "source")
    for name, value in (("managementUrl", "http://h"), ("discoveryInterval", "500")):
        with pytest.raises(Refused, match=f"{name} = '{value}': needs queuePattern"):
            Options.parse({"queue": "q", name: value}, "source")


def wait_for(search: QueueDiscovery, *names: str) -> None:
    deadline = time.monotonic() + IN_TIME_S
    while search.queues != list(names):
        assert time.monotonic() < deadline, search.queues
        search.take_in()
        time.sleep(0.02)


def test_a_search_takes_in_what_comes_into_being(
    api: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """Errors meanwhile are told once; a queue that the broker has no more is not read before it is
    listed again."""
    api.queues = [item("o.1")]
    search = QueueDiscovery(options(api, discoveryInterval="100"))
    try:
        assert search.queues == ["o.1"]
        search.open()
        api.queues.append(item("o.2"))
        wait_for(search, "o.1", "o.2")
        api.answer = lambda _query: BAD_GATEWAY
        asked = len(api.asked)
        while len(api.asked) < asked + 4:
            time.sleep(0.02)
        search.drop("o.1")
        assert not search.take_in()
        assert search.queues == ["o.2"]
        api.answer = api.page
        wait_for(search, "o.2", "o.1")
    finally:
        search.close()
    told = [record.getMessage() for record in caplog.records if "discover" in record.name]
    assert told[:2] == [
        "queuePattern = 'o.*': reads 'o.1'",
        "queuePattern = 'o.*': now reads also 'o.2'",
    ]
    assert sum("are not found" in line for line in told) == 1
    assert "queue 'o.1': is gone, and is not read any more (queuePattern)" in told


def test_a_query_that_cannot_look_does_not_begin() -> None:
    with pytest.raises(AmqpError, match=r"managementUrl = .*: cannot be reached"):
        QueueDiscovery(options("http://127.0.0.1:1"))
