"""Distinguished names of certificates in the form of RFC 2253, as Java's `X500Principal.getName()` returns them."""

from __future__ import annotations

import pytest

pytest.importorskip("cryptography")

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from tests.unit.net.certificates import NOW, authority

from ottla.security.tls.distinguished_name import subject_of

Attribute = x509.NameAttribute


def certificate(*names: x509.RelativeDistinguishedName) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([Attribute(NameOID.COMMON_NAME, "authority")])
    builder = x509.CertificateBuilder(issuer, x509.Name(names), key.public_key(), 1 << 150, NOW, NOW)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.DER)


def single(kind: x509.ObjectIdentifier, text: str) -> x509.RelativeDistinguishedName:
    return x509.RelativeDistinguishedName([Attribute(kind, text)])


def test_attributes_are_listed_in_reverse_order() -> None:
    names = [
        single(NameOID.COUNTRY_NAME, "DE"),
        single(NameOID.STATE_OR_PROVINCE_NAME, "B"),
        single(NameOID.LOCALITY_NAME, "Köln"),
        single(NameOID.STREET_ADDRESS, "S 1"),
        single(NameOID.ORGANIZATION_NAME, "O"),
        single(NameOID.ORGANIZATIONAL_UNIT_NAME, "OU"),
        single(NameOID.DOMAIN_COMPONENT, "com"),
        single(NameOID.USER_ID, "u"),
        single(NameOID.COMMON_NAME, "client"),
    ]
    assert subject_of(certificate(*names)) == "CN=client,UID=u,DC=com,OU=OU,O=O,STREET=S 1,L=Köln,ST=B,C=DE"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a,b+c"d\\e<f>g;h', 'a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h'),
        ("#a", "\\#a"),
        ("  a b ", "\\ \\ a b\\ "),
        (" ", "\\ "),
        ("a=b#c", "a\\=b\\#c"),
    ],
)
def test_special_characters_are_escaped(text: str, expected: str) -> None:
    assert subject_of(certificate(single(NameOID.COMMON_NAME, text))) == f"CN={expected}"


def test_attributes_without_a_keyword_are_written_as_oids() -> None:
    names = [single(NameOID.COMMON_NAME, "c"), single(NameOID.EMAIL_ADDRESS, "a@b")]
    assert subject_of(certificate(*names)) == "1.2.840.113549.1.9.1=#1603614062,CN=c"


def test_multi_valued_attributes_are_joined_with_plus() -> None:
    both = x509.RelativeDistinguishedName([Attribute(NameOID.COMMON_NAME, "c"), Attribute(NameOID.USER_ID, "u")])
    assert subject_of(certificate(both)) in ("CN=c+UID=u", "UID=u+CN=c")


def test_long_value_and_empty_subject_are_supported() -> None:
    text = "a" * 64
    assert subject_of(certificate(single(NameOID.TITLE, text))) == f"2.5.4.12=#0c40{text.encode().hex()}"
    assert subject_of(certificate()) == ""


def test_certificate_damaged_at_any_byte_raises_value_error() -> None:
    whole = authority().certificate.public_bytes(Encoding.DER)
    for end in range(len(whole)):
        with pytest.raises(ValueError, match="malformed certificate"):
            subject_of(whole[:end])
    for at in range(len(whole)):
        for value in (0, 0x7F, 0x80, 0xFF):
            try:
                subject_of(whole[:at] + bytes([value]) + whole[at + 1 :])
            except ValueError:
                pass
