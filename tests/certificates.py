"""Certificates with which nodes of Ray and programs speak TLS, in files, by Ray's variables."""

import datetime as dt
import ipaddress
from pathlib import Path

import ray
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = dt.timedelta(days=1)


def make_certificates(folder: Path) -> dict[str, str]:
    """A CA, and a certificate that it signed for all nodes on this machine: the environment of who has both."""
    folder.mkdir()
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = _certificate("ca", ca_key.public_key(), ca_key, [])
    here = [x509.IPAddress(ipaddress.ip_address(one)) for one in {"127.0.0.1", ray.util.get_node_ip_address()}]
    certificate = _certificate("node", key.public_key(), ca_key, [x509.DNSName("localhost"), *here])
    pem = serialization.Encoding.PEM
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    files = {
        "RAY_TLS_CA_CERT": ca.public_bytes(pem),
        "RAY_TLS_SERVER_CERT": certificate.public_bytes(pem),
        "RAY_TLS_SERVER_KEY": key.private_bytes(pem, *form),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return {"RAY_USE_TLS": "1", **{name: str(folder / name) for name in files}}


def _certificate(
    name: str,
    key: ec.EllipticCurvePublicKey,
    ca_key: ec.EllipticCurvePrivateKey,
    addresses: list[x509.GeneralName],
) -> x509.Certificate:
    """That of a CA where it has no addresses."""
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(_name("ca"))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.BasicConstraints(ca=not addresses, path_length=None), critical=True)
    )
    if addresses:
        made = made.add_extension(x509.SubjectAlternativeName(addresses), critical=False)
    return made.sign(ca_key, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
