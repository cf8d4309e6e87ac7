"""The report in a real browser: nothing complains, names are only names, it prints."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from shiftune.report._page import page

pytest.importorskip("matplotlib")

BROWSER = next(
    filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None
)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no browser: none of chromium, chromium-browser, google-chrome"
)


def run(path, folder, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            BROWSER,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={folder}",
            "--virtual-time-budget=20000",
            "--enable-logging=stderr",
            "--v=0",
            *options,
            path.as_uri(),
        ],
        check=True,
        capture_output=True,
        text=True,
    )


def complaints(log: str) -> list[str]:
    return [line for line in log.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def report(hostile_search, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page(hostile_search.result_), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def dom(report, tmp_path_factory):
    done = run(report, tmp_path_factory.mktemp("browser"), "--dump-dom")
    assert complaints(done.stderr) == []
    return done.stdout


def test_hostile_names_are_text(dom):
    # Attributes hold any sign as it is.
    elements = re.sub(r' (aria-label|title)="[^"]*"', "", dom)
    assert "<script" not in elements
    assert "<img src=" not in elements
    assert not re.search(r"<[^>]* onerror=", elements)
    assert "javascript:" not in "".join(re.findall(r'href="[^"]*"', elements))
    # The long name of a site, on an axis: cut in its middle, the signs as they were written.
    assert re.search(r"<text[^>]*>&lt;/script&gt;&lt;img…", elements)


def test_a_script_that_gets_in_does_not_run(report, tmp_path):
    """The check above would see a complaint, and the policy holds where the escaping fails."""
    bad = tmp_path / "bad.html"
    slip = "<script>document.body.id = 'taken'</script><img src=x onerror=\"alert(1)\">"
    bad.write_text(report.read_text(encoding="utf-8").replace("</body>", f"{slip}</body>"))
    done = run(bad, tmp_path / "browser", "--dump-dom")
    assert len(complaints(done.stderr)) >= 2
    assert '<body id="taken"' not in done.stdout


def test_it_prints(report, tmp_path):
    paper = tmp_path / "report.pdf"
    run(report, tmp_path / "browser", f"--print-to-pdf={paper}")
    assert paper.read_bytes()[:5] == b"%PDF-"
