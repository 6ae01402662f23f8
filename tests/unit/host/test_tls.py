"""Goal: a certificate gives the user name that RabbitMQ takes from it. Method: what RabbitMQ 3.10.8
wrote into its log for a certificate with one of everything.
"""

from __future__ import annotations

import pytest

from sluicemq.config import AuthConfig, Config
from sluicemq.errors import Refused
from sluicemq.host.reload import merged, summary
from sluicemq.host.tls import distinguished_name, user_of
from sluicemq.tls_config import TlsConfig

SUBJECT = (
    (("countryName", "AT"),),
    (("stateOrProvinceName", 'Wien, "Ost"'),),
    (("localityName", "Wien+=<>;\\#"),),
    (("organizationalUnitName", " u1 "),),
    (("organizationalUnitName", "#u2"),),
    (("commonName", "cn1"),),
    (("commonName", "cn2"),),
    (("emailAddress", "a@b.c"),),
    (("domainComponent", "dc1"),),
    (("serialNumber", "77"),),
    (("title", "Dr"),),
    (("surname", "Sur"),),
    (("givenName", "Giv"),),
    (("userId", "uid1"),),
    (("streetAddress", "street"),),
    (("pseudonym", "pseu"),),
    (("dnQualifier", "dnq"),),
    (("generationQualifier", "III"),),
)
RABBITMQS = (
    "GENERATIONQUALIFIER=III,2.5.4.46=dnq,PSEUDONYM=pseu,2.5.4.9=street,UID=uid1,GIVENNAME=Giv,"
    "SN=Sur,TITLE=Dr,SERIALNUMBER=77,DC=dc1,EMAILADDRESS=a@b.c,CN=cn2,CN=cn1,OU=\\#u2,OU=\\ u1\\ ,"
    'L=Wien\\+=\\<\\>\\;\\\\#,ST=Wien\\, \\"Ost\\",C=AT'
)
CERTIFICATE = {
    "subject": SUBJECT,
    "subjectAltName": (
        ("DNS", "first.example"),
        ("DNS", "second.example"),
        ("email", "m@x.y"),
        ("IP Address", "10.1.2.3"),
        ("URI", "spiffe://x/y"),
    ),
}


def test_a_distinguished_name_is_written_as_rabbitmq_writes_it() -> None:
    assert distinguished_name(SUBJECT) == RABBITMQS
    assert distinguished_name(()) == ""


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"ssl_cert_login_from": "distinguished_name"}, RABBITMQS),
        ({"ssl_cert_login_from": "common_name"}, "cn1,cn2"),
        ({"ssl_cert_login_san_index": 1}, "second.example"),
        ({"ssl_cert_login_san_index": 2}, ""),
        ({"ssl_cert_login_san_type": "ip"}, "10.1.2.3"),
        ({"ssl_cert_login_san_type": "email"}, "m@x.y"),
        ({"ssl_cert_login_san_type": "uri"}, "spiffe://x/y"),
    ],
)
def test_the_user_is_found_where_it_is_configured(settings: dict[str, str], name: str) -> None:
    chosen = {"ssl_cert_login_from": "subject_alternative_name", **settings}
    assert user_of(CERTIFICATE, AuthConfig(**chosen)) == name
    assert user_of({}, AuthConfig(**chosen)) == ""


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        ({"port": 1}, "ssl_options.certfile must be"),
        ({"verify": "verify_peer"}, "ssl_options.cacertfile must be set"),
        ({"fail_if_no_peer_cert": True}, "ssl_options.verify must be verify_peer"),
        ({"versions": ()}, "at least one version"),
        ({"versions": ("tlsv1.1",)}, "out of tlsv1.3, tlsv1.2"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    settings: dict[str, object], option: str
) -> None:
    with pytest.raises(Refused, match=option):
        TlsConfig(**settings)  # type: ignore[arg-type]


def test_reloading_takes_what_it_can_and_names_the_rest() -> None:
    current = Config.tiny()
    written = Config(auth=AuthConfig(default_pass="hunter2", auth_mechanisms=("PLAIN",)))
    config, changed, kept = merged(current, written)
    assert config.auth == AuthConfig(auth_mechanisms=("PLAIN",))
    assert config.net.channel_max == 2047
    assert config.net.frame_max == current.net.frame_max
    assert config.flow == current.flow
    assert "auth.auth_mechanisms = PLAIN" in changed
    assert {"auth.default_pass", "net.frame_max", "flow.window_floor"} <= set(kept)
    assert "hunter2" not in summary(changed, kept, False)
