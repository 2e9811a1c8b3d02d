"""The documentation: its programs, what the reference has, and the built site in a browser (`make docs` builds it)."""

import functools
import http.server
import importlib
import pathlib
import shutil
import threading

import pytest

import mxjax as mx

ROOT = pathlib.Path(__file__).parent.parent
SITE = ROOT / "site"


@pytest.fixture
def tool(monkeypatch):
    """function(name) -> a module of tools/docs."""
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "docs"))
    return importlib.import_module


# -------------------------------------------------------------------- pages with code
def page(tmp_path, text):
    path = tmp_path / "page.md"
    path.write_text(text, encoding="utf-8")
    return path


def test_output_is_put_below_the_code_that_prints_it(tool, tmp_path):
    given = "A\n\n```python\nx = 2\nprint(x)\nx + 1\n```\n\n```python\nx\n```\n"
    text, count = tool("execute").execute(page(tmp_path, given))
    assert count == 2
    assert text == ("A\n\n```python\nx = 2\nprint(x)\nx + 1\n```\n\n``` { .text .output }\n2\n3\n```\n\n"
                    "```python\nx\n```\n\n``` { .text .output }\n2\n```\n")


def test_blocks_that_are_only_shown_are_not_run(tool, tmp_path):
    text = "```py\n1 / 0\n```\n\n```sh\nfalse\n```\n"
    assert tool("execute").execute(page(tmp_path, text)) == (text, 0)


@pytest.mark.parametrize("block", ["```python\n1 / 0\n```", "```bash\nfalse | true\n```",
                                   "```python\nraise SystemExit\n```"])
def test_a_block_that_fails_is_named(tool, tmp_path, block):
    execute = tool("execute")
    with pytest.raises(execute.Failure, match="page.md, block 2 failed"):
        execute.execute(page(tmp_path, f"```python\n1\n```\n\n{block}\n"))


def test_a_shell_block_shows_what_it_prints(tool, tmp_path):
    text, _ = tool("execute").execute(page(tmp_path, "```bash\necho a; echo b >&2\n```\n"))
    assert text.endswith("``` { .text .output }\na\n```\n")


TABS = """```python
import os
level = 2 if os.environ.get("MXJAX_API") == "2" else 1
```

=== "MXNet 1.9.1"

    ```python
    for at in (level,):
        print("one", at)
    ```

=== "MXNet 2"

    ```python
    print("two", level)
    ```

"""


def test_blocks_in_tabs_are_run_at_their_own_level(tool, tmp_path):
    text, count = tool("execute").execute(page(tmp_path, TABS + "```python\nprint('both')\n```\n"))
    assert count == 4
    assert text.count("    ``` { .text .output }\n    one 1\n    ```\n") == 1
    assert text.count("    ``` { .text .output }\n    two 2\n    ```\n") == 1
    assert text.count("\n``` { .text .output }\nboth\n```\n") == 1


@pytest.mark.parametrize("more, said", [
    ("```python\nlevel\n```\n", "block 4 is not in a tab, and prints at level 1"),
    ("```python\n1 / (2 - level)\n```\n", "block 4 failed at level 2"),
])
def test_blocks_outside_of_tabs_must_do_the_same_at_both_levels(tool, tmp_path, more, said):
    execute = tool("execute")
    with pytest.raises(execute.Failure, match=said):
        execute.execute(page(tmp_path, TABS + more))


# -------------------------------------------------------------------- docstrings
def test_google_like_docstrings(tool):
    doc = tool("docstrings").parse("""Does it.

        More of it.

        Args:
            a, b: numbers,
                any of them.
            **rest: whatever.

        Returns:
            A number.

        Raises:
            TypeError, ValueError: a is none.

        Example:
            >>> f(1, 2)
            3
        """)
    assert doc.body == ["Does it.", "More of it."]
    assert [(r.name, r.text) for r in doc.rows] == [("a, b", "numbers,\nany of them."), ("**rest", "whatever.")]
    assert doc.returns == "A number." and doc.examples == ">>> f(1, 2)\n3"
    assert [(r.name, r.text) for r in doc.raises] == [("TypeError, ValueError", "a is none.")]


def test_docstrings_of_operators(tool):
    doc = tool("docstrings").parse(mx.nd.softmax.__doc__)
    rows = {r.name: r for r in doc.rows}
    assert rows["axis"].kind == "int, optional, default=-1" and rows["axis"].text
    assert doc.examples.startswith(">>> mx.nd.softmax(")


def test_text_is_shown_as_it_is(tool):
    escape = tool("docstrings").escape
    assert escape("a*b_c <d> `x_y` [1]") == r"a\*b\_c &lt;d> `x_y` \[1\]"
    assert "|" not in escape("a | b `c | d`")


# -------------------------------------------------------------------- the reference
def test_every_public_name_is_in_the_reference(tool):
    made = tool("reference").Reference()
    lacking = []
    for path in ("nd", "nd.contrib", "nd.linalg", "nd.random", "nd.image", "nd.sparse", "sym", "np", "npx", "gluon",
                 "gluon.nn", "gluon.rnn", "gluon.loss", "autograd", "metric", "optimizer", "io", "image", "kv", "mod"):
        for name, value in tool("reference").public(tool("reference").module(path)):
            if callable(value) and f"mx.{path}.{name}" not in made.names and value not in made.where:
                lacking.append(f"mx.{path}.{name}")
    assert not lacking
    for name in ("mx.nd.softmax", "mx.nd.FullyConnected", "mx.nd.where", "mx.np.mean", "mx.nd.contrib.box_nms"):
        text = made.pages[made.names[name]]
        assert f"# {name}\n" in text and "## Source" in text, name


# -------------------------------------------------------------------- links
def test_wrong_links_are_found(tool, tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="x">A</h1><a href="b.html#y">1</a><a href="b.html#z">2</a>')
    (tmp_path / "b.html").write_text('<p id="y"></p><a href="a.html#x">3</a><a href="c.html">4</a>'
                                     '<a href="https://example.org/">5</a><a href="javascript:no">6</a>')
    wrong, counts = tool("links").check(tmp_path)
    assert [line.split(":")[0] + line.rsplit(":")[-1] for line in wrong] == [
        "a.html there is no such anchor", "b.html there is no such file", "b.html what scheme is that?"]
    assert counts == {"pages": 2, "inside": 4, "outside": 2}


# -------------------------------------------------------------------- the site in a browser
class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address():
    if not (SITE / "search" / "search_index.json").exists():
        pytest.skip("looks at the built site, which takes minutes and packages of its own: `make docs` builds it "
                    "and runs this test")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(SITE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser(address):
    webdriver = pytest.importorskip("selenium.webdriver")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if not program or not driver:
        pytest.skip("drives a real browser: install Chromium and its chromedriver, as the workflow for docs does")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1300,1000"):
        options.add_argument(argument)
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield found
    found.quit()


@pytest.mark.parametrize("typed,page,title", [
    ("FullyConnected", "api/nd/FullyConnected.html", "mx.nd.FullyConnected"),
    ("softmax_cross_entropy", "api/nd/softmax_cross_entropy.html", "mx.nd.softmax_cross_entropy"),
    ("box_nms", "api/nd/contrib/box_nms.html", "mx.nd.contrib.box_nms"),
    ("mx.nd.where", "api/nd/where.html", "mx.nd.where"),
])
def test_the_search_finds_an_operators_page(browser, address, typed, page, title):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait
    browser.get(f"{address}/index.html")
    wait = WebDriverWait(browser, 60)
    field = browser.find_element(By.CSS_SELECTOR, "input[data-md-component=search-query]")
    field.click()
    field.send_keys(typed)

    def hit(driver):
        links = driver.find_elements(By.CSS_SELECTOR, ".md-search-result__item a.md-search-result__link")
        return next((link for link in links if f"/{page}" in link.get_attribute("href") and link.is_displayed()), None)
    wait.until(hit).click()
    wait.until(lambda driver: f"/{page}" in driver.current_url)
    heading = wait.until(lambda driver: driver.find_element(By.TAG_NAME, "h1"))
    assert title in heading.text
    assert any("mx.nd" in code.text for code in browser.find_elements(By.CSS_SELECTOR, ".md-content pre code"))


def test_a_tutorial_shows_what_its_code_prints(browser, address):
    from selenium.webdriver.common.by import By
    browser.get(f"{address}/tutorials/autograd.html")
    outputs = [block.text for block in browser.find_elements(By.CSS_SELECTOR, ".output code")]
    assert any("[ 3. 12. 27.]" in text for text in outputs), outputs


def test_nothing_is_fetched_from_elsewhere(browser, address):
    browser.get(f"{address}/index.html")
    fetched = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert fetched and all(name.startswith(address) for name in fetched), fetched
