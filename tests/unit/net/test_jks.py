"""JKS stores of JDK 17's keytool: `stores/key.jks` (storepass, key keypass1), `stores/trust.jks` (trustpass)."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.security.tls.jks import read_jks, reveal_key

STORES = Path(__file__).parent / "stores"
KEY = (STORES / "key.jks").read_bytes()
TRUST = (STORES / "trust.jks").read_bytes()


def test_key_store_contains_key_and_certificate() -> None:
    store = read_jks(KEY, "storepass")
    ((hidden, (certificate,)),) = store.keys
    assert store.trusted == []
    assert reveal_key(hidden, "keypass1")[:2] == b"\x30\x41"
    assert b"\x04Java" in certificate.replace(b"\x13\x04", b"\x04").replace(b"\x0c\x04", b"\x04")


def test_trust_store_contains_the_certificate_of_the_key() -> None:
    store = read_jks(TRUST, "trustpass")
    assert store.keys == []
    assert store.trusted == read_jks(KEY, None).keys[0][1]


def test_wrong_password_is_reported() -> None:
    with pytest.raises(ValueError, match="password"):
        read_jks(KEY, "wrong")
    with pytest.raises(ValueError, match="password of the key"):
        reveal_key(read_jks(KEY, "storepass").keys[0][0], "wrong")


@pytest.mark.parametrize("size", range(24, len(KEY) - 20, 29))
def test_truncated_store_is_reported(size: int) -> None:
    body = KEY[:size]
    digest = hashlib.sha1("storepass".encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()
    with pytest.raises(ValueError, match="too early"):
        read_jks(body + digest, "storepass")


def test_invalid_store_is_reported() -> None:
    with pytest.raises(ValueError, match="not a JKS key store"):
        read_jks(b"\xfe\xed\xfe\xed" + b"\xff" * 40, None)


@given(st.binary(), st.integers(0, 400), st.binary(max_size=8))
def test_damaged_store_is_read_or_raises_value_error(junk: bytes, at: int, change: bytes) -> None:
    for data in (b"\xfe\xed\xfe\xed" + junk, KEY[:at] + change + KEY[at + len(change) :]):
        try:
            for hidden, _ in read_jks(data, None).keys:
                reveal_key(hidden, "keypass1")
        except ValueError:
            continue
