"""How a client makes sure of its broker, and the broker of it."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from sluicemq.errors import Refused


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files in PEM form. No `cafile`: the system's authorities. `verify` False: whoever answers is
    believed, certificate and host name unseen."""

    cafile: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    verify: bool = True

    def context(self) -> ssl.SSLContext:
        """For client sockets; `Refused` with the file's name when one cannot be used."""
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        made.minimum_version = ssl.TLSVersion.TLSv1_2
        if not self.verify:
            made.check_hostname = False
            made.verify_mode = ssl.CERT_NONE
        elif self.cafile is None:
            made.load_default_certs()
        if self.cafile is not None:
            try:
                made.load_verify_locations(self.cafile)
            except OSError as error:
                raise Refused(f"cafile = {self.cafile!r} cannot be used: {error}") from error
        if self.certfile is not None:
            try:
                made.load_cert_chain(self.certfile, self.keyfile)
            except OSError as error:
                files = f"certfile = {self.certfile!r}, keyfile = {self.keyfile!r}"
                raise Refused(f"{files} cannot be used: {error}") from error
        return made
