"""Valid inputs of the targets in `fuzz.inputs`, and dictionaries of words, from which fuzzing with coverage starts.

The JSON parser is in C, where no coverage shows how far an input gets.
"""

from __future__ import annotations

from typing import Final

WORDS: Final = (
    b"null", b"true", b"NaN", b"Infinity", b"1e999", b"-1", b"9999999999999999999", b"[]", b"{}", b'""', b"[[", b'{"":',
    b"\\u0000", b"\\ud800", b"%ff", b"<default>", b"\x01", b"\0", b"=", b",", b";", b"RULE:", b"DEFAULT", b"//", b"$1",
    b"$9", b"required", b"n,,", b"n=", b"r=", b"p=", b"c=", b"s=", b"i=", b"auth=Bearer ", b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff", b"\xff\xff\xff\x0f", b"\x80\x00\x00\x00",
)  # fmt: skip

ZNODES: Final = (
    b'{"partitions":{"0":[1,2]},"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ","adding_replicas":{"0":[3]},"version":3}',
    b'{"version":1,"config":{"retention.ms":"1","x":5}}',
    b'{"version":1,"broker":1,"event":1}',
    b'{"version":1,"entity_type":"topics","entity_name":"t"}',
    b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","operation":"Read","host":"*"}]}',
    b'{"version":1,"resourceType":"TOPIC","name":"t","patternType":"PREFIXED"}',
    b'{"features":{"transaction.version":{"max_version_level":2}},"version":2,"status":1}',
    b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}',
    b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}',
    b'{"listener_security_protocol_map":{"A":"PLAINTEXT"},"endpoints":["A://h:9092"],"host":"h","port":9,"rack":""}',
    b'{"version":1,"config":{"a":[1,null]}}',
    b'{"version":1,"topics":["t"]}',
    b'{"version":3,"owner":"User:a","tokenRequester":"User:b","renewers":["User:c"],"issueTimestamp":1,'
    b'"maxTimestamp":2,"expiryTimestamp":3,"tokenId":"t"}',
    b"a%20b",
)
"""A value of each kind of znode, in the order of `inputs.ZNODES`."""

BATCHES: Final = (
    bytes.fromhex(
        "000000000000000000000049ffffffff02e69254260000000000010000018bcfe568000000018bcfe56801ffffffffffffff"
        "ffffffffffffff0000000220000000026b0a76616c756502026802780c000202010000"
    ),  # a batch
    bytes.fromhex(
        "00000000000000000000004fffffffff02e28b72c80001000000000000018bcfe568000000018bcfe56800ffffffffffffff"
        "ffffffffffffff000000011f8b08000000000000035360606060ca162a83010600e73f877911000000"
    ),  # a batch that gzip has compressed
    bytes.fromhex(
        "00000000000000000000001c817899cb01000000018bcfe56800000000016b0000000576616c756500000000000000010000"
        "001669213abb01000000018bcfe56801ffffffff00000000"
    ),  # messages of magic 1
    bytes.fromhex(
        "000000000000000000000033d315ee630001ffffffff000000251f8b08000000000000036360800389594a4c516016633690"
        "e02c830100daa4a90d24000000"
    ),  # of magic 0, compressed
)

SEEDS: Final = {
    "batches": BATCHES,
    "produced": BATCHES,
    "old_messages": BATCHES,
    "old_messages_converted": BATCHES,
    "log_files": [BATCHES[0] * 2],
    "messages": [number.to_bytes(2, "big") + bytes(40) for number in range(180)],
    "znode_values": [number.to_bytes(2, "big") + raw for number, raw in enumerate(ZNODES)],
    "jaas_configs": [
        b"org.apache.PlainLoginModule required username=\"a\" password='b' x=y;",
        b"ScramLoginModule optional",
    ],
    "principal_mapping": [b"RULE:^CN=(.)(.)$/$1-$2/L,DEFAULT\0CN=ab", b"RULE:a\\/b/x/U , DEFAULT\0a/b"],
    "server_properties": [
        b"# c\nbroker.id = 1\nlisteners:A://h:9092,B://:1\nlistener.security.protocol.map=A:PLAINTEXT,B:SSL\n"
        b"log.dirs /a,\\\n  /b\nx\\u0041=\\t",
    ],
    "znode_values_replaced": [number.to_bytes(2, "big") + b"\xff" * 8 for number in range(len(ZNODES))],
    "sasl_plain": [b"\0alice\0secret", b"alice\0alice\0wrong"],
    "sasl_scram": [b"n,,n=alice,r=abc\nc=biws,r=abc,p=AAAA", b"r=abc,s=c2FsdA==,i=4096\nv=AAAA"],
    "sasl_oauthbearer": [
        b"n,a=b,\x01auth=Bearer eyJ9.eyJ9.x\x01k=v\x01\x01",
        b"bnVsbA.bnVsbA.",
        b"e30.e30.",
        b"e30.eyJleHAiOjF9.",
    ],
    "files_beside_logs": [
        b"0\n2\nt 0 17\nt 1 5\n",
        b"0\n2\n0 0\n5 100\n",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n",
    ],
    "certificate_names": [b"\x30\x10\x30\x0e\xa0\x03\x02\x01\x02\x02\x01\x01\x30\x00\x30\x00\x30\x00"],
    "java_key_stores": [b"\xfe\xed\xfe\xed\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x02\x00\x01a" + bytes(40)],
}
"""Inputs by target."""
