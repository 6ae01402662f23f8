"""A broker that has a certificate, and the authority of its clients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from support import broker
from support.broker import Target
from tls.pki import CLIENT, Pki, make_pki


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="session")
def secure(pki: Pki, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A broker that asks clients for a certificate, but does not insist."""
    settings = pki.settings(
        "ssl_options.verify=verify_peer",
        "auth_mechanisms=PLAIN AMQPLAIN EXTERNAL",
        "ssl_cert_login_from=common_name",
        f"default_user={CLIENT}",
        "default_pass=secret",
        "loopback_users=none",
    )
    with broker.serving(tmp_path_factory.mktemp("secure"), *settings) as own:
        yield replace(own, user=CLIENT, password="secret")


@pytest.fixture
def over_tls(pki: Pki, secure: Target) -> Target:
    """The same by TLS, without a client certificate."""
    return secure.over_tls(pki.context())
