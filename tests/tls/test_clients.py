"""Goal: the clients people have reach the broker over TLS, and nobody gets in whom it must not let
in. Method: certificates of the right authority, of another one, expired, and none.
"""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta

import aio_pika
import amqp
import pika
import pytest
import trustme

from support.broker import Target
from support.peer import PATIENCE_SECONDS, Peer, start_ok
from tls.pki import CLIENT, Pki

BODY = b"x" * 300_000
"""Several frames, many TLS records."""


def pika_connection(
    target: Target, context: ssl.SSLContext, credentials: object = None
) -> pika.BlockingConnection:
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            target.host,
            target.tls_port,
            credentials=credentials or pika.PlainCredentials(target.user, target.password),
            ssl_options=pika.SSLOptions(context, target.host),
        )
    )


def test_pika(pki: Pki, secure: Target) -> None:
    with pika_connection(secure, pki.context()) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        queue = channel.queue_declare("", exclusive=True).method.queue
        for _ in range(20):
            channel.basic_publish("", queue, BODY)
        for _ in range(20):
            assert channel.basic_get(queue, auto_ack=True)[2] == BODY


def test_aio_pika(pki: Pki, secure: Target) -> None:
    async def talk() -> None:
        url = f"amqps://{secure.user}:{secure.password}@{secure.host}:{secure.tls_port}/"
        connection = await aio_pika.connect(url, ssl_context=pki.context())
        async with connection:
            channel = await connection.channel()
            queue = await channel.declare_queue(exclusive=True)
            await channel.default_exchange.publish(aio_pika.Message(BODY), queue.name)
            got = await queue.get(no_ack=True)
            assert got.body == BODY

    asyncio.run(asyncio.wait_for(talk(), PATIENCE_SECONDS))


def test_py_amqp(pki: Pki, secure: Target) -> None:
    options = {"ca_certs": str(pki.folder / "ca.pem"), "server_hostname": "localhost"}
    with amqp.Connection(
        f"localhost:{secure.tls_port}", secure.user, secure.password, ssl=options
    ) as connection:
        channel = connection.channel()
        queue = channel.queue_declare(exclusive=True).queue
        channel.basic_publish(amqp.Message(BODY), routing_key=queue)
        assert channel.basic_get(queue, no_ack=True).body == BODY


def test_a_certificate_logs_in(pki: Pki, secure: Target) -> None:
    leaf = pki.authority.issue_cert(common_name=CLIENT)
    with pika_connection(
        secure, pki.context(leaf), pika.credentials.ExternalCredentials()
    ) as connection:
        assert connection.channel().queue_declare("", exclusive=True).method.queue


@pytest.mark.parametrize("name", ["somebody.else", None])
def test_a_certificate_of_nobody_known_does_not(pki: Pki, secure: Target, name: str | None) -> None:
    """No certificate at all is no name either."""
    leaf = pki.authority.issue_cert(common_name=name) if name else None
    with Peer(secure.over_tls(pki.context(leaf))) as peer:
        peer.start().send(start_ok(b"", "EXTERNAL"))
        assert peer.verdict().startswith("connection 403 ACCESS_REFUSED - Login was refused")


def test_external_is_not_offered_without_tls(secure: Target) -> None:
    with Peer(secure) as peer:
        peer.send(b"AMQP\0\0\x09\x01")
        assert peer.expect("Connection.Start").mechanisms == "PLAIN AMQPLAIN"
        peer.send(start_ok(b"", "EXTERNAL"))
        assert peer.verdict() == "end"


def refused(target: Target, context: ssl.SSLContext) -> bool:
    """TLS 1.3 tells a client only when it reads."""
    try:
        with Peer(target.over_tls(context)) as peer:
            peer.send(b"AMQP\0\0\x09\x01")
            return peer.verdict() == "end"
    except (ssl.SSLError, ConnectionError):
        return True


def expired(authority: trustme.CA) -> trustme.LeafCert:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    return authority.issue_cert(
        common_name=CLIENT, not_before=yesterday - timedelta(days=9), not_after=yesterday
    )


def test_certificates_that_must_not_pass(pki: Pki, secure: Target) -> None:
    """Although a client without one is let in here: a bad one is worse than none."""
    stranger = trustme.CA().issue_cert(common_name=CLIENT)
    assert refused(secure, pki.context(stranger))
    assert refused(secure, pki.context(expired(pki.authority)))
    assert not refused(secure, pki.context())


def test_old_versions_are_not_spoken(pki: Pki, secure: Target) -> None:
    context = pki.context()
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    with pytest.warns(DeprecationWarning):
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    assert refused(secure, context)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_versions_are(pki: Pki, secure: Target, version: ssl.TLSVersion) -> None:
    context = pki.context()
    context.minimum_version = context.maximum_version = version
    with Peer(secure.over_tls(context)) as peer:
        peer.log_in().open()


def test_plain_amqp_at_the_tls_port_and_tls_at_the_other(pki: Pki, secure: Target) -> None:
    assert secure.tls_port is not None
    with Peer(Target(secure.host, secure.tls_port)) as peer:
        peer.send(b"AMQP\0\0\x09\x01")
        while peer.read() is not None:
            pass
        assert peer.is_at_end
    with pytest.raises((ssl.SSLError, ConnectionError)):
        pki.context().wrap_socket(Peer(secure).socket, server_hostname=secure.host)
