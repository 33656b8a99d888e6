"""Paths of the PEM files that prove a process's identity, and that verify others."""

from __future__ import annotations

import json
from pathlib import Path

import attrs


@attrs.frozen(kw_only=True)
class TlsFiles:
    """The section `[tls]`: our certificate and key, and the trusted authority. PEM files, read
    again when they change."""

    certificate: Path
    """Our certificate; it names us by a URI (`virtuallog.contract.caller_roles`)."""
    key: Path
    """Its private key, not encrypted."""
    authority: Path
    """Certificates of the trusted authorities. Danger: a holder of one of their keys can pose as
    anyone."""

    def below(self, folder: Path) -> TlsFiles:
        """Return the same paths, with relative ones resolved against `folder`."""
        return TlsFiles(certificate=folder / self.certificate, key=folder / self.key, authority=folder / self.authority)

    def spell(self) -> str:
        """Write the section that parses back to this."""
        lines = (f"{field.name} = {json.dumps(str(getattr(self, field.name)))}\n" for field in attrs.fields(TlsFiles))
        return "\n[tls]\n" + "".join(lines)
