"""The page in a real browser: what a user does, from the first slider to the export."""

import http.client
import re
from contextlib import closing

import pytest

import motorcost as mc
from made import made_analysis, made_fit, recorded
from motorcost.report import write_fit

pytest.importorskip("panel", reason="the page needs: pip install 'motorcost[explore]'")
expect = pytest.importorskip("playwright.sync_api").expect

# Compiling on a busy machine takes a while; nothing here is a test of speed.
PATIENCE = 200_000

# Chooses a file of 101 MB, as a user would.
TOO_LARGE = """field => {
  const chosen = new DataTransfer();
  chosen.items.add(new File([new Uint8Array(101 * 2**20)], "large.csv"));
  field.files = chosen.files;
  for (const name of ["input", "change"])
    field.dispatchEvent(new Event(name, {bubbles: true, composed: name == "input"}));
}"""

# Of the plot with this name, how many points each of its lines has.
POINTS_OF = """[...Bokeh.documents[0]._all_models.values()]
  .find(model => model.type == "Figure" && model.name == "LABEL")
  ?.renderers.map(line => line.data_source?.data.x?.length)"""


@pytest.fixture
def empty_page(browser, address):
    context = browser.new_context(accept_downloads=True)
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE)
    opened.problems = []
    opened.received = []
    opened.on(
        "websocket",
        lambda socket: socket.on("framereceived", lambda frame: opened.received.append(frame)),
    )
    opened.on("pageerror", lambda error: opened.problems.append(str(error)))
    opened.on(
        "console",
        lambda said: opened.problems.append(said.text) if said.type == "error" else None,
    )
    opened.on(
        "request",
        lambda asked: (
            opened.problems.append(f"asks {asked.url}")
            if not asked.url.startswith((address, address.replace("http", "ws"), "data:", "blob:"))
            else None
        ),
    )
    yield opened
    context.close()
    assert opened.problems == []


@pytest.fixture
def page(empty_page, address):
    empty_page.goto(address)
    computed(empty_page)
    return empty_page


def computed(page):
    """What the page says of its last picture, once there is one."""
    status = page.get_by_text("computed in")
    status.wait_for()
    return status.inner_text()


def sees_another_picture(page, before):
    expect(page.get_by_text("computed in")).not_to_have_text(before, timeout=PATIENCE)


def cost(text):
    return float(re.search(r"Expected cost ([\d.e-]+)", text).group(1))


def slider(page, name):
    """The handle of a slider, by the beginning of its title."""
    return page.locator(".bk-input-group", has_text=re.compile(rf"^{name}")).locator(".noUi-handle")


def choose_tab(page, name, key=None):
    """Choose a tab with the mouse, or with a key."""
    header = page.locator(".bk-tab", has_text=name)
    if key is None:
        header.click()
    else:
        header.focus()
        page.keyboard.press(key)


def drawn(page):
    """The data of every plot, to see whether they change."""
    return page.evaluate(
        """() => JSON.stringify([...Bokeh.documents[0]._all_models.values()]
            .filter(model => model.type == 'ColumnDataSource' && model.data.mean)
            .map(model => [...model.data.mean]))"""
    )


def test_a_slider_moves_the_pictures_by_keyboard(page):
    said, picture = computed(page), drawn(page)
    before = cost(said)
    assert before == pytest.approx(0.00123, rel=1e-3)  # what two implementations agree on
    handle = slider(page, "effort")
    handle.focus()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    sees_another_picture(page, said)
    assert cost(computed(page)) > before
    assert drawn(page) != picture


def test_a_slider_changes_all_pictures_by_one_message(page):
    """The browser draws after each message, and each array is two frames of one."""
    said = computed(page)
    slider(page, "effort").focus()
    page.wait_for_timeout(1000)  # until what came with the first picture is there
    page.received.clear()
    page.keyboard.press("ArrowRight")
    sees_another_picture(page, said)
    page.wait_for_timeout(1000)
    changes = [frame for frame in page.received if '"ColumnDataChanged"' in str(frame[:200])]
    assert len(changes) == 1
    assert len(page.received) < 50


def test_from_a_csv_to_a_fit_and_its_export(page, recordings, tmp_path):
    page.set_input_files("input[type=file]", recordings / "reaches.csv")
    choose_tab(page, "Likelihood and fit")
    page.get_by_text("Log likelihood of 12 trials").wait_for()
    for name in ("velocity", "force"):
        page.get_by_label(name, exact=True).uncheck()
    page.get_by_label("Searches").fill("1")
    page.keyboard.press("Tab")
    fit = page.get_by_role("button", name="Fit", exact=True)
    # Ten clicks must not queue ten fits.
    fit.evaluate("button => { for (let i = 0; i < 10; i++) button.click() }")
    page.get_by_text("log likelihood", exact=False).first.wait_for()
    page.get_by_text("95 % interval:").first.wait_for()
    page.get_by_text("1 of 1 searches found this maximum").wait_for()
    low, high = (
        float(value)
        for value in re.search(
            r"interval: ([\d.e-]+) to ([\d.e-]+)",
            page.get_by_text("95 % interval:").first.inner_text(),
        ).groups()
    )
    assert 1e-5 < low < high < 4e-5  # around what the trials were simulated with
    bar = page.locator(".interval > div").first.bounding_box()
    handle = slider(page, "effort").bounding_box()
    centre = handle["x"] + handle["width"] / 2
    assert bar["x"] - 1 < centre < bar["x"] + bar["width"] + 1
    assert fit.is_enabled()
    page.wait_for_function(
        POINTS_OF.replace("LABEL", "slice effort") + "?.includes(17)", timeout=PATIENCE
    )

    chosen = page.get_by_label("Recording or study in")
    expect(chosen).to_have_value("reaches.csv", timeout=PATIENCE)

    choose_tab(page, "One movement")
    page.get_by_text("what the agent took the state to be").wait_for()
    # As many moments as the movement has samples.
    page.wait_for_function(
        POINTS_OF.replace("LABEL", "belief") + "?.includes(12)", timeout=PATIENCE
    )

    choose_tab(page, "Export", key="Space")
    saved = {}
    for label in ("Study file", "Figure (SVG)", "Python lines"):
        with page.expect_download() as download:
            page.get_by_text(label).click()
        saved[label] = tmp_path / download.value.suggested_filename
        download.value.save_as(saved[label])
    (tmp_path / "reaches.csv").write_bytes((recordings / "reaches.csv").read_bytes())
    study = mc.Study.read(saved["Study file"])
    assert list(study.free) == ["effort"]
    assert len(study.trials()[0]) == 12
    assert saved["Figure (SVG)"].read_text().count("<svg") == 1
    lines = saved["Python lines"].read_text().partition("policy = ")[0]  # solving takes longer
    exec(compile(lines, "explored.py", "exec"), {})

    chosen.select_option("none: simulated movements only")
    page.get_by_role("button", name="Take the simulated movements as data").click()
    expect(chosen).to_have_value("20 simulated movements", timeout=PATIENCE)
    chosen.select_option("none: simulated movements only")
    page.get_by_role("button", name="Take the simulated movements as data").wait_for()


def test_another_task_reads_the_recording_again(page, recordings):
    page.set_input_files("input[type=file]", recordings / "reaches.csv")
    choose_tab(page, "Likelihood and fit", key="Enter")
    value = page.get_by_text("Log likelihood of 12 trials")
    value.wait_for()
    before = value.inner_text()
    page.get_by_label("Task").select_option("posture")
    expect(value).not_to_have_text(before, timeout=PATIENCE)
    value.wait_for()
    expect(page.get_by_label("force", exact=True)).to_have_count(0)  # a cost of reaching


def test_a_broken_upload_gets_a_message_and_the_page_lives_on(page, recordings):
    page.set_input_files("input[type=file]", recordings / "broken.csv")
    page.get_by_text("broken.csv: needs trials of two samples").wait_for()
    said = []
    page.once("dialog", lambda dialog: (said.append(dialog.message), dialog.accept()))
    page.locator("input[type=file]").evaluate(TOO_LARGE)
    assert "large.csv is larger than 100 MB" in said[0]
    slider(page, "effort").focus()
    before = computed(page)
    page.keyboard.press("ArrowLeft")
    sees_another_picture(page, before)


def test_files_that_the_page_may_not_open(empty_page, address):
    answers = {
        "../secret.csv": "is not in the folder",
        "/etc/passwd": "is not in the folder",
        "outside.toml": "is not in the folder",
        "notes.txt.exe": "is neither a study",
    }
    for name, answer in answers.items():
        empty_page.goto(f"{address}?file={name}")
        empty_page.get_by_text(answer).wait_for()
    computed(empty_page)  # and the page shows the model all the same
    link = empty_page.get_by_role("link", name="dark")
    assert link.get_attribute("href") == "?theme=dark&file=notes.txt.exe"


def answer_to(address, path, **headers):
    """The status of the answer to a request."""
    port = int(address.rsplit(":", 1)[1].strip("/"))
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path, headers=headers)
        with connection.getresponse() as answer:
            return answer.status


def test_other_hosts_are_refused(address):
    assert answer_to(address, "/favicon.ico") == 200
    for host in ("lab.example", "127.0.0.1.lab.example", ""):
        assert answer_to(address, "/favicon.ico", Host=host) == 403


def test_a_websocket_from_another_site_is_refused(address):
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "bW90b3Jjb3N0IGV4cGxvcmU=",
        "Origin": "http://lab.example",
    }
    assert answer_to(address, "/ws", **headers) == 403


def test_nothing_but_the_page_is_served(address):
    for path in (
        "/reaches.csv",
        "/../secret.csv",
        "/static/../../secret.csv",
        "/%2e%2e/secret.csv",
    ):
        assert answer_to(address, path) in (403, 404)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_phone_shows_everything_within_its_width(browser, address, theme):
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(f"{address}?theme={theme}", timeout=PATIENCE)
    computed(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    context.close()


def test_the_report_opens_without_errors(browser, tmp_path):
    write_fit(made_analysis(made_fit(["effort"], recorded())), tmp_path)
    page, problems = browser.new_page(), []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.goto((tmp_path / "report.html").as_uri())
    assert page.locator("img, svg").count() > 0
    assert problems == []
    page.close()
