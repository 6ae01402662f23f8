"""Certificates made for the occasion."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme

CLIENT = "app.example"
"""Whom the client's certificate names, and who may log in."""


@dataclass
class Pki:
    """An authority, and the files the broker reads."""

    authority: trustme.CA
    folder: Path

    def write_server(self, authority: trustme.CA | None = None) -> trustme.LeafCert:
        """The broker's certificate and key, in place of those that are there."""
        leaf = (authority or self.authority).issue_cert("localhost", "127.0.0.1")
        chain = b"".join(part.bytes() for part in leaf.cert_chain_pems)
        (self.folder / "cert.pem").write_bytes(chain)
        leaf.private_key_pem.write_to_path(str(self.folder / "key.pem"))
        return leaf

    def settings(self, *more: str) -> list[str]:
        """What `serve --set` needs for TLS with mutual trust."""
        return [
            "listeners.ssl.default=0",
            f"ssl_options.cacertfile={self.folder / 'ca.pem'}",
            f"ssl_options.certfile={self.folder / 'cert.pem'}",
            f"ssl_options.keyfile={self.folder / 'key.pem'}",
            *more,
        ]

    def context(
        self, leaf: trustme.LeafCert | None = None, authority: trustme.CA | None = None
    ) -> ssl.SSLContext:
        """A client's, with a certificate or without."""
        made = ssl.create_default_context()
        (authority or self.authority).configure_trust(made)
        if leaf is not None:
            leaf.configure_cert(made)
        return made


def make_pki(folder: Path) -> Pki:
    made = Pki(trustme.CA(), folder)
    made.authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    made.write_server()
    return made
