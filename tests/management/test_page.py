"""Goal: the page comes whole, nobody uses it who has not logged in, no other site uses it for who
has, and it hears of changes. Method: the requests that a browser would make, and a WebSocket.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import trustme
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

import sluicemq.management
from support.management import Managed, managed

PAGE = Path(sluicemq.management.__file__).parent / "page"
OURS = [path for path in PAGE.rglob("*.js") if path.parent.name != "vendor"]
OWN = {"X-SluiceMQ-Page": "1"}


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, authority: trustme.CA) -> Iterator[Managed]:
    directory = tmp_path_factory.mktemp("page")
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    over_tls = (
        "management.ssl.port=0",
        f"management.ssl.certfile={certificate}",
        f"management.ssl.keyfile={key}",
    )
    with managed(directory, *over_tls) as found:
        yield found


@pytest.fixture
def session(own: Managed) -> requests.Session:
    """Somebody who has logged in at the page."""
    found = requests.Session()
    given = {"name": "guest", "password": "guest"}
    answer = found.post(f"{own.url}/session", json=given, headers=OWN, timeout=60)
    assert answer.json() == {"name": "guest", "tags": ["administrator"]}
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    return found


def live(own: Managed, cookies: dict[str, str], origin: str | None = None) -> Any:
    place = own.url.replace("http:", "ws:") + "/live"
    headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
    return connect(place, additional_headers=headers, origin=origin or own.url, open_timeout=60)


def test_every_file_that_the_page_needs_is_served(own: Managed) -> None:
    start = requests.get(f"{own.url}/", timeout=60)
    assert start.headers["content-type"].startswith("text/html")
    policy = start.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    wanted = set(re.findall(r'(?:href|src)="/([^"]+)"', start.text))
    for path in OURS:
        for name in re.findall(r'from "([^"]+)"', path.read_text()):
            place = PAGE / name.lstrip("/") if name.startswith("/") else path.parent / name
            wanted.add(str(place.resolve().relative_to(PAGE.resolve())))
    assert len(wanted) > 10
    for name in sorted(wanted):
        answer = requests.get(f"{own.url}/{name}", timeout=60)
        assert answer.status_code == 200, name
        assert "javascript" in answer.headers["content-type"] or not name.endswith(".js")
    for name in ("../app.py", "..%2fapp.py", "vendor/", "nothing.js"):
        assert requests.get(f"{own.url}/{name}", timeout=60).status_code == 404
    assert requests.post(f"{own.url}/", timeout=60).status_code == 404


def test_names_reach_the_page_as_text_only() -> None:
    """Nothing in our scripts makes markup or code of a text."""
    for path in OURS:
        found = re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc",
            path.read_text(),
        )
        assert found == [], path.name


def test_a_session_counts_for_requests_of_the_page_alone(
    own: Managed, session: requests.Session
) -> None:
    place = f"{own.url}/api/queues/%2F/made"
    assert session.put(place, json={}, timeout=60).status_code == 401  # another site's form
    assert session.put(place, json={}, headers=OWN, timeout=60).status_code == 201
    assert session.get(place, headers=OWN, timeout=60).json()["name"] == "made"
    assert session.delete(place, headers=OWN, timeout=60).status_code == 204
    token = dict(session.cookies)
    assert session.delete(f"{own.url}/session", headers=OWN, timeout=60).status_code == 204
    late = requests.get(f"{own.url}/api/whoami", headers=OWN, cookies=token, timeout=60)
    assert late.status_code == 401
    assert "www-authenticate" not in late.headers  # the page asks, not the browser


def test_it_is_there_over_tls_with_a_certificate_of_ones_own(
    own: Managed, authority: trustme.CA, tmp_path: Path
) -> None:
    trusted = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(trusted)
    [secure] = own.others
    assert secure.startswith("https://")
    given = {"name": "guest", "password": "guest"}
    answer = requests.post(f"{secure}/session", json=given, headers=OWN, timeout=60, verify=trusted)
    assert answer.json()["name"] == "guest"
    assert "Secure" in answer.headers["set-cookie"]
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(f"{secure}/", timeout=60)
    protocols = {each["protocol"] for each in own.get("overview")["listeners"]}
    assert {"http", "https"} <= protocols


def test_a_wrong_password_opens_no_session(own: Managed) -> None:
    for given in ({"name": "guest", "password": "x"}, {"name": "guest"}, [1]):
        answer = requests.post(f"{own.url}/session", json=given, headers=OWN, timeout=60)
        assert answer.status_code in (400, 401)
        assert "set-cookie" not in answer.headers


def test_a_page_hears_of_changes_of_what_it_watches(
    own: Managed, session: requests.Session
) -> None:
    hostile = "%3Cscript%3Ealert(1)%3C%2Fscript%3E"
    with live(own, dict(session.cookies)) as socket:
        socket.send(json.dumps({"watch": ["queues?columns=name", "nothing/there"]}))
        told = [json.loads(socket.recv(60)) for _ in range(2)]
        assert {"path": "queues?columns=name", "answer": []} in told
        assert {"path": "nothing/there", "error": "Not Found"} in told
        own.do("PUT", f"queues/%2F/{hostile}", 201, json={})
        assert json.loads(socket.recv(60)) == {
            "path": "queues?columns=name",
            "answer": [{"name": "<script>alert(1)</script>"}],
        }
        socket.send(json.dumps({"watch": ["sluicemq/chain"]}))
        stages = json.loads(socket.recv(60))["answer"]["stages"]
        assert "queue" in {stage["kind"] for stage in stages}
        session.delete(f"{own.url}/session", headers=OWN, timeout=60)
        own.do("DELETE", f"queues/%2F/{hostile}", 204)
        with pytest.raises(ConnectionClosed):
            while True:
                socket.recv(60)


@pytest.mark.parametrize("said", ["x", "{}", '{"watch": 5}', "[" * 5000])
def test_who_does_not_speak_as_the_page_is_not_listened_to(
    own: Managed, session: requests.Session, said: str
) -> None:
    with live(own, dict(session.cookies)) as socket:
        socket.send(said)
        with pytest.raises(ConnectionClosed):
            socket.recv(60)


def test_nobody_else_opens_a_live_socket(own: Managed, session: requests.Session) -> None:
    for cookies, origin in (({}, None), (dict(session.cookies), "http://elsewhere.example")):
        with live(own, cookies, origin) as socket, pytest.raises(ConnectionClosed):
            socket.recv(60)
