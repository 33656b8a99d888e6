"""Paths of the PEM files with which a process proves who it is, and with which it knows others."""

from __future__ import annotations

import json
from pathlib import Path

import attrs


@attrs.frozen(kw_only=True)
class TlsFiles:
    """The section `[tls]`: what to prove who we are with, and whom to believe. PEM files, read again when they change."""

    certificate: Path
    """Our certificate; it names us by a URI (`virtuallog.contract.roles`)."""
    key: Path
    """Its private key, not encrypted."""
    authority: Path
    """The certificates of the authorities that may vouch for others. Whoever has one of their keys is everybody."""

    def below(self, folder: Path) -> TlsFiles:
        """The same with relative paths counted from `folder`."""
        return TlsFiles(certificate=folder / self.certificate, key=folder / self.key, authority=folder / self.authority)

    def spell(self) -> str:
        """The section that reads back as this."""
        lines = (f"{field.name} = {json.dumps(str(getattr(self, field.name)))}\n" for field in attrs.fields(TlsFiles))
        return "\n[tls]\n" + "".join(lines)
