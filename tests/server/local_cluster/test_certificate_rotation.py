"""Certificates and their authority are replaced while a checked workload appends: no node is restarted for it, and nothing is lost."""

from __future__ import annotations

import shutil
import socket
import ssl
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio
from cryptography import x509

from tests.server.process.test_processes import folder
from virtuallog.connect import connect
from virtuallog.contract.address import split_address
from virtuallog.contract.caller_roles import Principal, Role
from virtuallog.contract.errors import InvalidSettingError, UntrustedError
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.harness.trial import Trial, TrialLoad, run_trial
from virtuallog_server.local_cluster.certificates import Authority, certify, files_of
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster

__all__ = ["folder"]
pytestmark = [pytest.mark.processes, pytest.mark.long]

LOAD: Final = TrialLoad(writers=16)
APP: Final = Principal(cluster="local", role=Role.CLIENT, name="app")
OWNERS: Final = (
    *(Principal(cluster="local", role=Role.NODE, name=str(node)) for node in (1, 2, 3)),
    Principal(cluster="local", role=Role.ADMIN, name="local"),
    APP,
)
SHORT_SECONDS: Final = 30.0
"""Life of a short certificate: long enough that a machine which stalls for some seconds renews it in time."""
LEFT_SECONDS: Final = 20.0
"""Rest of its life at which it is renewed."""
DAY_SECONDS: Final = 86_400.0
PATIENCE_SECONDS: Final = 60.0


def folder_of(cluster: LocalCluster) -> Path:
    """Folder with the files that nodes and clients use."""
    assert cluster.tls is not None
    return cluster.tls.authority.parent


def client_of(cluster: LocalCluster) -> TlsFiles:
    return files_of(folder_of(cluster), APP)


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def replace(path: Path, content: bytes) -> None:
    """Put a file in place in one step, as tools that distribute certificates do."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)


def shown_by(address: str, files: TlsFiles) -> x509.Certificate:
    """The certificate that a node shows in a new handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(files.authority)
    context.load_cert_chain(files.certificate, files.key)
    host, port = split_address(address)
    return x509.load_pem_x509_certificate(fetch(context, host, port))


def fetch(context: ssl.SSLContext, host: str, port: int) -> bytes:
    with socket.create_connection((host, port), timeout=10) as plain, context.wrap_socket(plain) as stream:
        found = stream.getpeercert(binary_form=True)
    assert found is not None
    return ssl.DER_cert_to_PEM_cert(found).encode()


async def check_shown(cluster: LocalCluster) -> None:
    """Check that each node shows the certificate in its file, without any signal."""
    for node in cluster.nodes.values():
        assert node.config.tls is not None
        shown = await trio.to_thread.run_sync(partial(shown_by, node.config.listen, client_of(cluster)))
        assert shown.serial_number == certificate(node.config.tls.certificate).serial_number


async def wait_listening(cluster: LocalCluster) -> None:
    """Wait until nodes that have just been started have handshakes."""
    clock = SystemClock()
    with clock.timeout(PATIENCE_SECONDS):
        while True:
            try:
                await check_shown(cluster)
            except ConnectionRefusedError:
                await clock.sleep(0.1)
            else:
                return
    raise AssertionError("a node does not listen")


async def arrive(cluster: LocalCluster, files: TlsFiles | None = None) -> None:
    """A client that begins now has its handshakes with nodes, and reads the tail."""
    with SystemClock().timeout(PATIENCE_SECONDS):
        async with connect(attrs.evolve(cluster.file, tls=files or client_of(cluster))) as log:
            await log.check_tail()
        return
    raise AssertionError("it has not found the tail")


async def reconnect(trial: Trial) -> None:
    """Each node dies and comes back, one after the other: all of its connections are made anew, in both directions."""
    for node in trial.cluster.nodes:
        await trial.cluster.kill(node)
        await trial.restart(node)
        await wait_listening(trial.cluster)
        await arrive(trial.cluster)


def keep(cluster: LocalCluster, name: str) -> TlsFiles:
    """The client's files of this moment, which a thief may have copied."""
    here = folder_of(cluster)
    kept = here.with_name(name)
    shutil.copytree(here, kept)
    return files_of(kept, APP)


async def change_authority(trial: Trial) -> None:
    """Both authorities everywhere; then certificates of the new one, file by file; then the new authority alone."""
    cluster, here = trial.cluster, folder_of(trial.cluster)
    former = keep(cluster, "former")
    made = Authority.create(here.with_name("made"), "local")
    own, theirs = (here / "authority.pem").read_bytes(), (made.folder / "authority.pem").read_bytes()

    replace(here / "authority.pem", own + theirs)
    await arrive(cluster)
    await reconnect(trial)
    for owner in OWNERS:
        issued, used = made.issue(owner), files_of(here, owner)
        replace(used.key, issued.key.read_bytes())
        if owner != APP:  # its own key and certificate have to belong together
            await arrive(cluster)
        replace(used.certificate, issued.certificate.read_bytes())
        await arrive(cluster)
    await check_shown(cluster)
    await reconnect(trial)
    replace(here / "authority.pem", theirs)
    await arrive(cluster)
    await reconnect(trial)
    await check_shown(cluster)
    with pytest.raises(UntrustedError):
        await arrive(cluster, former)


async def test_the_authority_is_changed_under_load(folder: Path) -> None:
    """New clients come all the time, and nodes are killed at each step, so that every connection is made anew."""
    async with open_local_cluster(folder, base_port=0, tls=True) as cluster:
        await cluster.wait_ready()
        evidence = await run_trial(cluster, LOAD, change_authority, client_of(cluster))

    assert evidence.verdict.problems == ()
    assert evidence.verdict.entries >= evidence.workload.acknowledged > 0


def seconds_left(path: Path) -> float:
    return certificate(path).not_valid_after_utc.timestamp() - SystemClock().wall()


async def outlive(trial: Trial) -> None:
    """Short certificates, renewed three times: the first ones end meanwhile. Then none is renewed: they end, and are renewed late."""
    cluster, clock = trial.cluster, SystemClock()
    here, pids = folder_of(cluster), [node.pid for node in cluster.running]
    short = partial(certify, here, OWNERS, renew=True, days=SHORT_SECONDS / DAY_SECONDS)
    short()
    first = keep(cluster, "first")
    for _ in range(3):
        while seconds_left(client_of(cluster).certificate) > LEFT_SECONDS:
            await arrive(cluster)
            await clock.sleep(0.2)
        short()
        await check_shown(cluster)
    await wait_end(first.certificate, clock)
    assert seconds_left(client_of(cluster).certificate) > 0
    await arrive(cluster)
    with pytest.raises(InvalidSettingError, match="cannot be used: certificate has expired"):
        await arrive(cluster, first)

    last = keep(cluster, "last")
    await wait_end(last.certificate, clock)
    with pytest.raises(InvalidSettingError, match="cannot be used: certificate has expired"):
        await arrive(cluster)
    assert await trial.wait_acknowledged(trial.workload.elapsed, PATIENCE_SECONDS), "open connections have ended"
    certify(here, OWNERS, renew=True)
    await check_shown(cluster)
    await arrive(cluster)
    assert [node.pid for node in cluster.running] == pids


async def wait_end(path: Path, clock: SystemClock) -> None:
    """Wait until a certificate is not valid any more."""
    while seconds_left(path) > 0:
        await clock.sleep(0.2)


async def test_certificates_end_and_are_renewed_under_load(folder: Path) -> None:
    """Open connections go on past the end, new ones need a certificate that is valid: with it, a late renewal mends all."""
    async with open_local_cluster(folder, base_port=0, tls=True) as cluster:
        await cluster.wait_ready()
        evidence = await run_trial(cluster, LOAD, outlive, client_of(cluster))

    assert evidence.verdict.problems == ()
    assert evidence.verdict.entries >= evidence.workload.acknowledged > 0
