"""Login, roles, CSRF, read-only mode, masking, audit log and headers of the console."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.unit.console.consoles import HASH, PASSWORD, USERS, ConsoleBrowser, open_console

from ottla import KafkaProducer
from ottla.broker.embedded import Broker
from ottla.errors import ConfigurationError
from ottla_console.application import create_app
from ottla_console.pages import login
from ottla_console.routes import ROUTES
from ottla_console.security import audit
from ottla_console.security.masking import Masking, masked_value
from ottla_console.security.sessions import COOKIE, MAX_FAILURES, Sessions
from ottla_console.security.users import Role, User, hash_password, load_users
from ottla_console.settings import ConsoleSettings, ListenAddress

CREATION = {"name": "never", "partitions": "1"}


@pytest.fixture
def guarded(ottla_broker: Broker) -> Any:
    with open_console(ottla_broker.bootstrap_servers, users=USERS) as browser:
        yield browser


def test_page_redirects_to_the_login_and_back(guarded: ConsoleBrowser) -> None:
    response = guarded.client.get("/topics?page=2", follow_redirects=False)
    assert response.headers["location"] == "/login?next=/topics%3Fpage%3D2"
    response = guarded.client.post(
        "/login",
        data={"name": "viewer", "password": PASSWORD, "next": "/topics", "csrf": guarded.token("/login")},
        follow_redirects=False,
    )
    assert response.headers["location"] == "/topics"
    assert "HttpOnly" in response.headers["set-cookie"]
    assert "SameSite=strict" in response.headers["set-cookie"]
    guarded.post("/logout", {}, form="/topics")
    assert guarded.client.get("/topics", follow_redirects=False).status_code == 303


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_login_never_redirects_to_another_site(guarded: ConsoleBrowser, target: str) -> None:
    fields = {"name": "viewer", "password": PASSWORD, "next": target}
    response = guarded.client.post("/login", data={**fields, "csrf": guarded.token("/login")}, follow_redirects=False)
    assert response.headers["location"] == "/"


def test_login_changes_the_session_id(guarded: ConsoleBrowser) -> None:
    guarded.text("/login")
    before = guarded.client.cookies[COOKIE]
    guarded.log_in("viewer")
    assert guarded.client.cookies[COOKIE] != before


def test_wrong_password_is_rejected_and_slowed_down(guarded: ConsoleBrowser) -> None:
    for name in ("viewer", "viewer", "viewer", "viewer", "viewer"):
        assert "Name or password is wrong" in guarded.log_in(name, "wrong", 401)
    assert "Too many attempts" in guarded.log_in("viewer", PASSWORD, 429)
    assert "Name or password is wrong" in guarded.log_in("no-such-user", PASSWORD, 401)


def test_attempts_at_the_same_time_do_not_exceed_the_limit_of_failures(
    guarded: ConsoleBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login, "_hashing", asyncio.Semaphore(2))  # it belongs to the event loop of its first waiter
    fields = {"name": "viewer", "password": "wrong", "csrf": guarded.token("/login")}
    with ThreadPoolExecutor(20) as threads:
        results = [threads.submit(guarded.client.post, "/login", data=fields) for _ in range(20)]
    codes = [result.result().status_code for result in results]
    assert {*codes} == {401, 429}
    assert codes.count(401) <= MAX_FAILURES + 1  # two are checked at a time


@pytest.mark.parametrize("route", [route for route in ROUTES if route.role > Role.VIEWER], ids=lambda route: route.path)
def test_viewer_role_cannot_change_anything(guarded_viewer: ConsoleBrowser, route: Any) -> None:
    path = route.path.replace("{topic}", "t").replace("{broker:int}", "0")
    if route.method == "GET":
        text = guarded_viewer.text(path, 403)
    else:
        text = guarded_viewer.post(path, {}, form="/", status=403)
    assert f"This requires the role {route.role.name.lower()}" in text


@pytest.fixture(scope="module")
def guarded_viewer(ottla_broker: Broker) -> Any:
    with open_console(ottla_broker.bootstrap_servers, users=USERS) as browser:
        browser.log_in("viewer")
        browser.wait()
        yield browser


def test_editor_role_can_create_but_not_delete_topics(guarded: ConsoleBrowser, ottla_topic: str) -> None:
    guarded.log_in("editor")
    guarded.post("/topics/create", {"name": ottla_topic, "replicas": "1"}, form="/topics/create")
    page = f"/topics/{ottla_topic}"
    assert "Delete the topic<" not in guarded.text(page)
    text = guarded.post(f"{page}/delete", {"confirm": ottla_topic}, form=page, status=403)
    assert "This requires the role admin; editor is editor." in text


def test_form_without_csrf_token_is_rejected(console: ConsoleBrowser) -> None:
    for token in ("", "0" * 64, "é"):
        response = console.client.post("/topics/create", data={**CREATION, "csrf": token})
        assert response.status_code == 403
        assert "out of date" in response.text
    console.client.cookies.clear()
    assert "never" not in console.text("/topics")


def test_csrf_token_of_another_session_is_rejected() -> None:
    sessions = Sessions()
    one, other = sessions.new_id(), sessions.new_id()
    assert sessions.is_csrf_token(one, sessions.csrf_token(one))
    assert not sessions.is_csrf_token(one, sessions.csrf_token(other))


def test_number_of_sessions_is_bounded() -> None:
    sessions = Sessions()
    ids = [sessions.log_in(User("alice", Role.VIEWER)) for _ in range(1_001)]
    assert sessions.user(ids[0]) is None
    assert sessions.user(ids[-1]) == User("alice", Role.VIEWER)


def test_read_only_console_rejects_every_change(ottla_broker: Broker) -> None:
    with open_console(ottla_broker.bootstrap_servers, read_only=True, users=USERS) as browser:
        browser.log_in("admin")
        assert "Create a topic" not in browser.text("/topics")
        assert "read-only" in browser.post("/topics/create", CREATION, form="/", status=403)


def test_changes_and_rejections_are_in_the_audit_log(
    guarded: ConsoleBrowser, ottla_topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.console.audit")
    guarded.log_in("editor")
    guarded.post("/topics/create", {"name": ottla_topic, "replicas": "1"}, form="/topics/create")
    guarded.post("/topics/create", {"name": ottla_topic, "replicas": "1"}, form="/topics/create", status=400)
    guarded.post("/users/set", {"name": "x\nuser=root", "password": "hunter2"}, form="/topics", status=403)
    lines = [record.getMessage() for record in caplog.records if record.name == "ottla.console.audit"]
    resource = f"action=create-topic resource=topic:{ottla_topic} partitions=1 replicas=1"
    assert lines == [
        "user=editor role=editor address=testclient action=login resource=console outcome=done",
        f"user=editor role=editor address=testclient {resource} outcome=done",
        f"user=editor role=editor address=testclient {resource} outcome=TopicAlreadyExistsError",
        "user=editor role=editor address=testclient action=POST /users/set resource=- outcome=rejected (role)",
    ]
    assert all("hunter2" not in line for line in lines)


def test_names_cannot_forge_lines_of_the_audit_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.console.audit")
    audit.record(User("ann", Role.ADMIN), "delete-group", "group:x\nuser=root é\u2028", "done", "10.0.0.7")
    assert caplog.messages == [
        "user=ann role=admin address=10.0.0.7 action=delete-group resource=group:x\\nuser=root é\\u2028 outcome=done"
    ]


def test_masked_fields_are_neither_shown_nor_searched(ottla_broker: Broker, ottla_topic: str) -> None:
    with KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        producer.send(ottla_topic, b'{"name":"Ada","card":{"number":"secret"}}', key=b"secret")
    masking = Masking([f"{ottla_topic[:5]}*=card.number,$key"])
    with open_console(ottla_broker.bootstrap_servers, masking=masking) as browser:
        text = browser.text(f"/topics/{ottla_topic}/messages")
        assert "Ada" in text
        assert "secret" not in text
        assert "None of the searched records" in browser.text(f"/topics/{ottla_topic}/messages?filter=secret")


@pytest.mark.parametrize(
    ("value", "masked_json"),
    [
        (b'[{"a":{"b":1}},{"a":[{"b":2}]}]', b'[{"a": {"b": "\xe2\x80\xa2\xe2\x80\xa2\xe2\x80\xa2"}}'),
        (b"not JSON", "•••".encode()),
        (b"[" * 100_000, "•••".encode()),
        (b"[" * 1_000 + b"]" * 1_000, "•••".encode()),
    ],
)
def test_value_that_is_not_json_is_masked_completely(value: bytes, masked_json: bytes) -> None:
    masked = masked_value(value, Masking(["t=a.b"]).of_topic("t"))
    assert masked is not None
    assert masked.startswith(masked_json)
    assert b"1" not in masked
    assert b"2" not in masked


def test_half_of_a_surrogate_pair_stays_an_escape_if_fields_are_masked() -> None:
    masked = masked_value(b'{"a":{"b":1},"c":"\\ud800"}', Masking(["t=a.b"]).of_topic("t"))
    assert masked == '{"a": {"b": "•••"}, "c": "\\ud800"}'.encode()


@pytest.mark.parametrize("rule", ["", "orders", "orders=", "=a", "orders=$vale"])
def test_malformed_masking_rule_is_rejected(rule: str) -> None:
    with pytest.raises(ConfigurationError, match="expected TOPIC=FIELD"):
        Masking([rule])


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.7", "example.org", "::"])
def test_public_listen_address_requires_users(host: str) -> None:
    configs = {"bootstrap.servers": "127.0.0.1:1"}
    with pytest.raises(ConfigurationError, match="add --users FILE, or listen on"):
        create_app(ConsoleSettings(configs, ListenAddress(host, 8080)))
    ConsoleSettings(configs, ListenAddress(host, 8080), USERS).check()


def test_unknown_host_header_is_rejected_without_a_login(console: ConsoleBrowser) -> None:
    response = console.client.get("/", headers={"Host": "rebound.evil.example"})
    assert response.status_code == 421
    assert console.client.get("/", headers={"Host": "[::1]:8080"}).status_code == 200


def test_every_page_has_security_headers(console: ConsoleBrowser) -> None:
    for path in ("/", "/nowhere", "/static/console.css", "/login"):
        headers = console.client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
    assert console.client.get("/").headers["cache-control"] == "no-store"


@pytest.mark.parametrize("text", ["8080", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "::1:8080", ":8080"])
def test_malformed_listen_address_is_rejected(text: str) -> None:
    with pytest.raises(ConfigurationError, match="expected HOST:PORT"):
        ListenAddress.parse(text)


def test_listen_address_may_be_ipv6() -> None:
    assert ListenAddress.parse("[::1]:8080") == ("::1", 8080)


def test_users_file_is_loaded_and_malformed_lines_are_rejected(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text(f"# comment\nalice:admin:{HASH}\n\n")
    assert load_users(file)["alice"].role is Role.ADMIN
    for malformed in ("alice:admin:plain", "alice:root:" + HASH, "alice", ""):
        file.write_text(malformed + "\n")
        with pytest.raises(ConfigurationError, match="--users"):
            load_users(file)
    file.write_bytes("jürgen:admin:".encode("latin-1") + HASH.encode())
    with pytest.raises(ConfigurationError, match="the file is not UTF-8"):
        load_users(file)


def test_password_that_is_too_long_to_log_in_with_is_not_hashed() -> None:
    with pytest.raises(ConfigurationError, match="1,025 characters; at most 1,024"):
        hash_password("x" * 1025)


def test_large_form_is_rejected(console: ConsoleBrowser) -> None:
    token = console.token("/topics/create")
    response = console.client.post("/topics/create", data={"name": "x" * 4_000_000, "csrf": token})
    assert response.status_code == 400
    assert "too large" in response.text
