"""Ray's TLS, as far as it decides whether a program can reach a cluster.

If certificates do not fit, Ray tries again and again, and then says that nobody answers. So here both sides show their
certificates first, and the error names what does not fit.
"""

import ipaddress
import os
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rayshot.errors import ClusterRefused

CERT, KEY, CA = "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT"
HOW_TLS = f"set RAY_USE_TLS=1, and {CERT}, {KEY} and {CA} to files that the cluster knows"
OWN_REFUSED = (
    f"the Ray cluster at {{}} refuses this program's certificate: set {CERT} and {KEY} to one that its CA signed"
)
_PROTOCOL = ["h2"]


def uses_tls() -> bool:
    """Whether Ray in this process speaks TLS."""
    return os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")


def speaks_tls(wire: socket.socket) -> bool:
    """Whether the other end speaks TLS. It does not have to accept our certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(_PROTOCOL)
    try:
        context.wrap_socket(wire).close()
    except OSError:
        return False
    return True


def encrypt(wire: socket.socket, where: str) -> ssl.SSLSocket:
    """Speak TLS over a connection to the control service at `where`, with the certificates of Ray's variables.

    Raises ClusterRefused if one of them is missing, or does not fit the cluster's. Only the first answer of the cluster
    shows whether it accepts our certificate.
    """
    context = _context()
    try:
        encrypted = context.wrap_socket(wire)
    except ssl.SSLCertVerificationError as error:
        raise ClusterRefused(
            f"the certificate of the Ray cluster at {where} is not signed by a CA in {CA} ({error.verify_message}): "
            f"set {CA} to the cluster's own",
            address=where,
        ) from None
    except ssl.SSLError as error:
        if "ALERT" in (error.reason or ""):
            raise ClusterRefused(OWN_REFUSED.format(where), address=where) from None
        raise ClusterRefused(
            f"what runs at {where} speaks no TLS: set RAY_USE_TLS=0 for this program, or give the address of the "
            f"cluster that does",
            address=where,
        ) from None
    _check_name(encrypted.getpeercert() or {}, where)
    return encrypted


def _context() -> ssl.SSLContext:
    for variable in (CERT, KEY, CA):
        if not os.environ.get(variable):
            raise ClusterRefused(f"RAY_USE_TLS is set, and {variable} is not: {HOW_TLS}")
        try:
            Path(os.environ[variable]).read_bytes()
        except OSError as error:
            raise ClusterRefused(f"{variable}={os.environ[variable]} cannot be read: {error.strerror}") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # Python checks other names than Ray does, see `_check_name`
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as Ray does
    context.set_alpn_protocols(_PROTOCOL)
    try:
        context.load_verify_locations(os.environ[CA])
    except ssl.SSLError:
        raise ClusterRefused(f"{CA}={os.environ[CA]} holds no certificate: {HOW_TLS}") from None
    try:
        context.load_cert_chain(os.environ[CERT], os.environ[KEY], password="")
    except ssl.SSLError:
        raise ClusterRefused(
            f"{CERT}={os.environ[CERT]} and {KEY}={os.environ[KEY]} do not fit: give a certificate "
            f"and its own key, without a password"
        ) from None
    return context


def _check_name(certificate: Mapping[str, Any], where: str) -> None:
    """Raise ClusterRefused if Ray will find that the certificate is for another address than `where`."""
    host = where.rpartition(":")[0]
    names = [str(name) for _, name in certificate.get("subjectAltName", ())]
    try:
        ipaddress.IPv4Address(host)
    except ValueError:  # names may have wildcards, and other addresses several forms: Ray decides
        return
    if host not in names:
        raise ClusterRefused(
            f"the certificate of the Ray cluster at {where} is for {', '.join(names) or 'no address'}: give it one "
            f"with {host} among its alternative names, or use an address that it has",
            address=where,
        )
