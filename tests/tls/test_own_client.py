"""Goal: our own client speaks TLS, and says whom it does not believe. Method: a broker with a
certificate.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from sluicemq.client.address import Address
from sluicemq.client.blocking import BlockingClient
from sluicemq.client.consuming import Subscription
from sluicemq.client.messages import BasicProperties, body_of, content, publish_frame
from sluicemq.client.publishing import Publisher
from sluicemq.client.session import BrokerError
from sluicemq.client.tls import TlsFiles
from sluicemq.client.wire import Wire
from sluicemq.errors import Refused
from support.broker import Target
from tls.pki import Pki


def address(target: Target) -> Address:
    assert target.tls_port is not None
    return Address("localhost", target.tls_port, target.user, target.password, secure=True)


def test_messages_go_both_ways(pki: Pki, secure: Target, name: str) -> None:
    tls = TlsFiles(cafile=str(pki.folder / "ca.pem"))
    with BlockingClient(address(secure), 240.0, "admin", tls) as client:
        client.declare_queue(name)
    bodies = [bytes([n % 256]) * (n * 700) for n in range(300)]
    wire = Wire(address(secure), 240.0, "publisher", tls)
    publisher = Publisher(wire, 50)
    properties = BasicProperties().encode()
    method = publish_frame("", name, True)
    publisher.publish([method + content(properties, body, wire.frame_max) for body in bodies])
    publisher.settle()
    wire.close()
    wire = Wire(address(secure), 240.0, "consumer", tls)
    subscription = Subscription(wire, name, 1000)
    found: list[bytes] = []
    while len(found) < len(bodies):
        for event in subscription.poll(10.0):
            found += map(body_of, event.contents)
            subscription.acknowledge(event.tags[0], event.tags[-1])
    wire.close()
    assert found == bodies


def test_a_broker_nobody_vouches_for_is_refused(secure: Target, tmp_path: Path) -> None:
    stranger = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(stranger))
    with pytest.raises(BrokerError, match=r"no TLS with amqps://.*CERTIFICATE_VERIFY_FAILED"):
        Wire(address(secure), 240.0, "", TlsFiles(cafile=str(stranger)))
    Wire(address(secure), 240.0, "", TlsFiles(verify=False)).close()


def test_files_that_cannot_be_used_are_named() -> None:
    with pytest.raises(Refused, match="certfile = '/no/cert', keyfile = '/no/key'"):
        TlsFiles(certfile="/no/cert", keyfile="/no/key").context()
