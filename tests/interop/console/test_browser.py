"""The console in Chromium: every page by keyboard, at the width of a phone, in dark mode, and checked by axe-core.

Needs playwright, the Chromium of the system, which apt-get installs, and axe-core, which npm downloads.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scripts import debian

from ottla import KafkaProducer
from ottla.broker.embedded import Broker
from ottla_console.application import create_app
from ottla_console.settings import ConsoleSettings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = pytest.mark.interop

TOPIC = "visits"
AXE = "axe-core@4"
PAGES = (
    "/",
    "/brokers",
    "/brokers/0",
    "/topics",
    "/topics/create",
    f"/topics/{TOPIC}",
    f"/topics/{TOPIC}/messages",
    f"/topics/{TOPIC}/tail",
    "/groups",
    "/transactions",
    "/acls",
    "/users",
    "/quotas",
    "/log-dirs",
    "/spark",
    "/spark/query?file=queries-visits.progress.json&id=pages",
    "/spark/pipeline?file=pipeline-visits.progress.json",
    "/topics/no-such-topic",
)
LIGHT: dict[str, Any] = {"viewport": {"width": 1280, "height": 860}, "color_scheme": "light"}
DARK: dict[str, Any] = {"viewport": {"width": 1280, "height": 860}, "color_scheme": "dark"}
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "color_scheme": "light"}
MAX_TABS = 40


def write_progress(directory: Path) -> None:
    """Write the progress of a query that runs and of a pipeline that has failed."""
    now = int(time.time() * 1000)
    head = {"format": 1, "name": "visits", "host": "spark-1", "startedMs": now, "updatedMs": now, "isClosed": False}
    recent = [
        {"at": f"2026-11-21T23:47:{n:02}Z", "rows_per_second": 100 + n, "allBehind": 900 - n, "milliseconds": 40 * n}
        for n in range(60)
    ]
    query: dict[str, Any] = {"id": "pages", "name": "pages per minute", "status": "running", "exception": None}
    query |= {
        "batches": 60,
        "numInputRows": 6000,
        "processedRowsPerSecond": 130.0,
        "durationMs": {"addBatch": 900, "walCommit": 80},
    }
    query |= {"offsetsBehindLatest": {TOPIC: 841}, "state": {"rows": 12}, "recent": recent}
    flows = [
        {"name": "pages", "state": "COMPLETED", "atMs": now, "reason": ""},
        {"name": "referrers", "state": "FAILED", "atMs": now, "reason": "no such column"},
    ]
    pipeline = {"state": "FAILED", "message": "flow referrers: no such column", "flows": flows}
    for kind, content in (("queries", {"queries": [query]}), ("pipeline", pipeline)):
        (directory / f"{kind}-visits.progress.json").write_text(json.dumps({**head, "kind": kind, **content}))


@pytest.fixture(scope="module")
def url(ottla_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a console for a broker with a topic."""
    progress = tmp_path_factory.mktemp("progress")
    write_progress(progress)
    uvicorn = pytest.importorskip("uvicorn")
    with KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        for i in range(100):
            producer.send(TOPIC, b'{"page": "/index.html", "number": %d}' % i, key=b"%d" % i)
    configs = {"bootstrap.servers": ottla_broker.bootstrap_servers}
    app = create_app(ConsoleSettings(configs, progress_dirs=(progress,), sample_seconds=0.2, background_share=0.5))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    with socket.create_server(("127.0.0.1", 0)) as sock:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        yield f"http://127.0.0.1:{sock.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Chromium without a window."""
    playwright = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium-browser") or shutil.which("google-chrome") or debian.program("chromium")
    if path is None:
        pytest.skip("apt-get could not install Chromium")
    with playwright.sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the source of axe-core."""
    if shutil.which("npm") is None:
        pytest.skip("needs npm, which fetches axe-core")
    folder = tmp_path_factory.mktemp("axe")
    packed = subprocess.run(["npm", "pack", "--silent", AXE], cwd=folder, capture_output=True, text=True, check=False)
    if packed.returncode:
        pytest.skip(f"needs axe-core from the npm registry: {packed.stderr.strip()[-200:]}")
    shutil.unpack_archive(folder / packed.stdout.strip(), folder, "gztar")
    return (folder / "package" / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def context(browser: Browser, request: pytest.FixtureRequest) -> Iterator[BrowserContext]:
    """Open a browser with the settings of the test."""
    # axe-core is injected, which the Content-Security-Policy forbids
    opened = browser.new_context(**getattr(request, "param", LIGHT), bypass_csp=True)
    yield opened
    opened.close()


def opened_page(context: BrowserContext, url: str) -> tuple[Page, list[str]]:
    """Return a page at the overview, and the errors of its console."""
    page, messages = context.new_page(), list[str]()
    page.on("console", lambda message: messages.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(url)
    page.get_by_role("heading", name="Overview").wait_for()  # after a retry, if the lists are not there yet
    messages.clear()
    return page, messages


@pytest.mark.parametrize("context", [LIGHT, DARK, PHONE], ids=["light", "dark", "phone"], indirect=True)
def test_pages_are_accessible_and_fit_the_screen(context: BrowserContext, url: str, axe: str) -> None:
    page, messages = opened_page(context, url)
    for path in PAGES:
        page.goto(url + path)
        page.evaluate("document.querySelectorAll('details').forEach(details => details.open = true)")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"{path} is too wide"
        page.evaluate(axe)
        violations = page.evaluate("axe.run().then(result => result.violations)")
        serious = [
            (path, rule["id"], [node["html"][:200] for node in rule["nodes"]])
            for rule in violations
            if rule["impact"] in ("serious", "critical")
        ]
        assert serious == []
    assert [message for message in messages if "404" not in message] == []


def test_every_page_of_the_navigation_is_reached_by_keyboard(context: BrowserContext, url: str) -> None:
    page, _ = opened_page(context, url)
    links = page.locator("#nav li a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert len(links) == 10
    for link in links:
        page.goto(f"{url}/topics/create")
        for _ in range(MAX_TABS):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.getAttribute('href')") == link:
                break
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", "no visible focus"
        page.keyboard.press("Enter")
        page.wait_for_url(url + link)


def test_skip_link_leads_to_the_content(context: BrowserContext, url: str) -> None:
    page, _ = opened_page(context, url)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_topic_is_created_by_keyboard(context: BrowserContext, url: str) -> None:
    page, _ = opened_page(context, url)
    page.goto(f"{url}/topics/create")
    page.locator("input[name=name]").focus()
    page.keyboard.type("typed")
    page.keyboard.press("Enter")
    page.get_by_text("Topic typed was created.").wait_for()


def test_search_filters_the_list_while_typing(context: BrowserContext, url: str) -> None:
    page, messages = opened_page(context, url)
    page.goto(f"{url}/topics?internal=yes")
    page.keyboard.press("/")
    page.keyboard.type("no-such-name")
    page.get_by_text("No topic has “no-such-name” in its name.").wait_for()
    assert "search=no-such-name" in page.url
    assert page.evaluate("document.activeElement.id") == "search"
    assert messages == []


def test_tail_shows_records_that_arrive(context: BrowserContext, url: str, ottla_broker: Broker) -> None:
    page, messages = opened_page(context, url)
    page.goto(f"{url}/topics/{TOPIC}/tail")
    page.get_by_text("Connected").wait_for()
    with KafkaProducer(bootstrap_servers=ottla_broker.bootstrap_servers) as producer:
        producer.send(TOPIC, b"<b>fresh</b>")
        producer.flush()
        page.get_by_text("<b>fresh</b>").wait_for()
    assert page.locator("#tail-seen").inner_text() == "1"
    assert messages == []


@pytest.mark.parametrize("context", [{**PHONE, "java_script_enabled": False}], ids=["phone"], indirect=True)
def test_menu_opens_on_a_phone_without_javascript(context: BrowserContext, url: str) -> None:
    page, _ = opened_page(context, url)
    assert not page.locator("#nav").is_visible()
    page.get_by_role("link", name="Menu").click()
    page.get_by_role("link", name="Groups", exact=True).click()
    page.wait_for_url(f"{url}/groups")


def test_wheel_has_the_files_of_the_browser() -> None:
    import ottla_console

    static = Path(ottla_console.__file__).parent / "static"
    assert "Zero-Clause BSD" in (static / "htmx.LICENSE.txt").read_text(encoding="utf-8")
    assert (static / "htmx.min.js").stat().st_size < 64 * 1024
