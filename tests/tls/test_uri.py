"""Goal: our own client and the lab reach a broker by an `amqps` URI alone. Method: URIs with
RabbitMQ's query parameters, against a broker that wants certificates.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import pytest

from sluicemq.client.address import Address
from sluicemq.client.blocking import connect
from sluicemq.client.session import BrokerError
from sluicemq.errors import Refused
from sluicemq.lab.conductor import run_scenario
from support.broker import Target
from support.lab_runs import Notes, small_plan
from tls.pki import CLIENT, Pki


def uri(target: Target, pki: Pki, host: str = "127.0.0.1", **query: str) -> str:
    given = {"cacertfile": str(pki.folder / "ca.pem"), **query}
    who = f"{target.user}:{target.password}"
    return f"amqps://{who}@{host}:{target.tls_port}/?{urlencode(given)}"


def test_a_password_over_tls(pki: Pki, secure: Target) -> None:
    with connect(uri(secure, pki)) as client:
        assert client.product == "SluiceMQ"


def test_a_certificate_instead_of_a_password(pki: Pki, secure: Target, tmp_path: Path) -> None:
    leaf = pki.authority.issue_cert(common_name=CLIENT)
    leaf.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    leaf.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    files = {"certfile": str(tmp_path / "cert.pem"), "keyfile": str(tmp_path / "key.pem")}
    with connect(uri(secure, pki, auth_mechanism="external", **files)) as client:
        client.declare_queue("by-certificate")
        client.delete_queue("by-certificate")
    with pytest.raises(BrokerError, match="offers no EXTERNAL login, only PLAIN"):
        connect(uri(secure, pki, auth_mechanism="external"))


def test_the_broker_must_be_who_it_should_be(pki: Pki, secure: Target) -> None:
    with pytest.raises(BrokerError, match="no TLS with"):
        connect(uri(secure, pki, server_name_indication="somebody.else"))
    with pytest.raises(BrokerError, match="no TLS with"):
        connect(f"amqps://{secure.host}:{secure.tls_port}")
    unsure = uri(secure, pki, server_name_indication="somebody.else", verify="verify_none")
    connect(unsure).close()


@pytest.mark.parametrize("query", ["cacert=x", "verify=perhaps", "auth_mechanism=anonymous"])
def test_options_that_do_not_exist_are_refused(query: str) -> None:
    with pytest.raises(Refused, match=query.partition("=")[0]):
        Address.parse(f"amqps://h/?{query}")


def test_the_lab_by_tls(pki: Pki, secure: Target, tmp_path: Path) -> None:
    result = run_scenario(small_plan(uri(secure, pki), tmp_path, limits="100%"), Notes())
    counts = result.verification
    assert result.problems == {}
    assert counts["published"] == counts["confirmed"] == counts["delivered"] > 500
