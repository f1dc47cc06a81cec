"""The subject of a certificate in the format of RFC 2253, as Java writes it, and its expiry time. By default, the
subject is the user's name in Kafka.

Only the fields of the certificate that are needed for this are decoded. The relative distinguished names are in the
reverse order of the certificate. Attributes without a name in RFC 2253, or whose value is not a string of a type in
ENCODINGS, are written as OID and hexadecimal value.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
ENCODINGS: Final = {
    12: "utf-8",
    19: "ascii",  # PrintableString
    20: "latin-1",  # TeletexString
    22: "ascii",  # IA5String
    28: "utf-32-be",  # UniversalString
    30: "utf-16-be",  # BMPString
}
"""The encodings of strings, by their tags in DER."""
_CONSTRUCTED_0: Final = 0xA0
_UTC_TIME: Final = 23


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate (DER) in the format of RFC 2253.

    Raises ValueError if the certificate is malformed.
    """
    try:
        _, subject = _validity_and_subject(certificate)
        relative = [_relative(content) for _, content in _parts(subject)]
    except (IndexError, ValueError) as error:
        raise ValueError(f"malformed certificate: {error}") from None
    return ",".join(reversed(relative))


def expiry_of(certificate: bytes) -> datetime:
    """Return the time at which a certificate (DER) expires. Raises ValueError if the certificate is malformed."""
    try:
        validity, _ = _validity_and_subject(certificate)
        _, (tag, text) = _parts(validity)
        year = "%y" if tag == _UTC_TIME else "%Y"
        return datetime.strptime(text.decode("ascii"), f"{year}%m%d%H%M%SZ").replace(tzinfo=UTC)
    except (IndexError, ValueError) as error:
        raise ValueError(f"malformed certificate: {error}") from None


def _validity_and_subject(certificate: bytes) -> tuple[bytes, bytes]:
    ((_, whole),) = _parts(certificate)
    (_, signed), *_ = _parts(whole)
    fields = _parts(signed)
    if fields[0][0] == _CONSTRUCTED_0:  # the optional version
        del fields[0]
    _serial, _algorithm, _issuer, (_, validity), (_, subject), *_ = fields
    return validity, subject


def _relative(content: bytes) -> str:
    """Return one relative distinguished name: an attribute, or several joined with +."""
    return "+".join(_attribute(attribute) for _, attribute in _parts(content))


def _attribute(content: bytes) -> str:
    (_, number), (tag, value) = _parts(content)
    kind = _dotted(number)
    if kind not in KEYWORDS or tag not in ENCODINGS:
        return f"{kind}=#{_whole(tag, value).hex()}"
    return f"{KEYWORDS[kind]}={_escaped(value.decode(ENCODINGS[tag]))}"


def _escaped(text: str) -> str:
    """Escape a value like Java, which escapes more than RFC 2253 requires: = and # everywhere, and all spaces at both
    ends.
    """
    return re.sub(r'([,=+<>#;"\\])|^ +| +$', lambda match: "".join("\\" + c for c in match[0]), text)


def _dotted(number: bytes) -> str:
    arcs, arc = [], 0
    for byte in number:
        arc = arc << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(arc)
            arc = 0
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, [first, arcs[0] - 40 * first, *arcs[1:]]))


def _parts(content: bytes) -> list[tuple[int, bytes]]:
    """Return the elements of a DER sequence: tags and contents."""
    parts, at = [], 0
    while at < len(content):
        tag, size, at = content[at], content[at + 1], at + 2
        if size & 0x80:
            more = size & 0x7F
            size, at = int.from_bytes(content[at : at + more], "big"), at + more
        if at + size > len(content):
            raise ValueError("it ends too early")
        parts.append((tag, content[at : at + size]))
        at += size
    return parts


def _whole(tag: int, value: bytes) -> bytes:
    """Return a DER element with its header."""
    size = len(value)
    if size < 0x80:
        return bytes([tag, size]) + value
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + value
