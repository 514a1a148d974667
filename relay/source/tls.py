"""TLS to the source: the certificates that the relay accepts, and the one that it shows."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from pathlib import Path

from relay.base.errors import ErrorCode, RelayError


def unverified() -> ssl.SSLContext:
    """Return a context that accepts any certificate.

    The host's certificates are not loaded for it: that takes 20 ms, which is longer than the rest of a login.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_NONE
    return made


def context(mode: str, ca: str, cert: str, key: str) -> ssl.SSLContext | None:
    """Return the context for `SourceTLS = mode`; None for off and prefer, which do not insist on TLS.

    `ca` is a file, "" for the system's certificates; `cert` and `key` are files, "" for none. Raises `RelayError`
    (config) for files that cannot be used.
    """
    if mode not in ("required", "verify"):
        return None
    try:
        made = ssl.create_default_context(cafile=ca or None) if ca or mode == "verify" else unverified()
    except (OSError, ssl.SSLError) as error:
        raise _unusable(error, ca, "correct SourceCA in [Server]") from None
    # The certificates that servers generate for themselves are not strictly X.509.
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if mode == "required":
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if cert:
        try:
            made.load_cert_chain(cert, key, _no_passphrase)
        except (OSError, ssl.SSLError, ValueError) as error:
            hint = "correct LoginCert and LoginKey in [Server]: PEM, that key without a passphrase"
            raise _unusable(error, f"{cert} with {key}", hint) from None
    return made


def validity(cert: str) -> str:
    """Why the first certificate of a file is not valid today, "" if it is or cannot be read."""
    from cryptography import x509  # takes time, and only errors need it

    try:
        found = x509.load_pem_x509_certificate(Path(cert).read_bytes())
    except (OSError, ValueError):
        return ""
    now = datetime.now(UTC)
    if now > found.not_valid_after_utc:
        return f"it expired at {found.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC"
    if now < found.not_valid_before_utc:
        return f"it is valid only from {found.not_valid_before_utc:%Y-%m-%d %H:%M:%S} UTC"
    return ""


def _no_passphrase() -> str:
    """Otherwise OpenSSL asks for it at the terminal."""
    raise ValueError("the key has a passphrase")


def _unusable(error: Exception, position: str, hint: str) -> RelayError:
    return RelayError(ErrorCode.CONFIG, "load certificate", error, position=position, hint=hint)
