"""Goal: who is let in is so for as long as that holds, and no longer: a user whom the broker knows,
a session of the page. Method: the link and the clock of bench.py.
"""

from __future__ import annotations

import pytest
from starlette.requests import HTTPConnection

from sluicemq.management.api_error import ApiError, BrokerRefused
from sluicemq.management.sign_in import COOKIE, LET_IN_S, PAGE_HEADER, SESSIONS_MAX, SignIn, Visitor

from .bench import CountingLink, Moment, run

EVE = Visitor("eve", "apple", (), frozenset())


def of_page(token: str, kind: str = "http") -> HTTPConnection:
    """A request of the page, or one that another site has a browser send."""
    headers = [(b"cookie", f"{COOKIE}={token}".encode())]
    if kind == "http":
        headers.append((PAGE_HEADER.encode(), b"1"))
    return HTTPConnection({"type": "http", "headers": headers})


def test_a_session_ends_after_its_time_or_by_logging_out() -> None:
    async def work(moment: Moment) -> None:
        sign_in = SignIn(CountingLink({}), session_s=60.0)
        token, other = sign_in.open_session(EVE), sign_in.open_session(EVE)
        moment.now_s += 60
        assert sign_in.of_session(of_page(token)) == ("eve", "apple")
        assert sign_in.of_session(of_page(token, "elsewhere")) is None
        sign_in.close_session(of_page(other))
        assert sign_in.of_session(of_page(other)) is None
        moment.now_s += 0.1
        assert sign_in.of_session(of_page(token)) is None
        assert not sign_in.sessions
        tokens = [sign_in.open_session(EVE) for _ in range(SESSIONS_MAX + 1)]
        assert sign_in.of_session(of_page(tokens[0])) is None
        assert sign_in.of_session(of_page(tokens[1]))

    run(work)


def test_about_a_user_the_broker_is_asked_once_a_second_and_after_each_change() -> None:
    async def work(moment: Moment) -> None:
        link = CountingLink({"log_in": [{"tags": ["monitoring"], "vhosts": ["/"]}]})
        sign_in = SignIn(link, 60.0)
        for _ in range(50):
            assert (await sign_in.log_in("eve", "apple", "127.0.0.1")).may("monitoring")
        assert len(link.asked) == 1
        await sign_in.log_in("eve", "apple", "192.0.2.1")  # whom the broker may not let in there
        assert len(link.asked) == 2
        sign_in.changed()
        await sign_in.log_in("eve", "apple", "127.0.0.1")
        assert len(link.asked) == 3
        moment.now_s += LET_IN_S
        link.refusal = BrokerRefused("no", 65)
        with pytest.raises(ApiError):
            await sign_in.log_in("eve", "apple", "127.0.0.1")
        assert sign_in.attempts.succeeded == 52
        assert sign_in.attempts.failed == 1

    run(work)
