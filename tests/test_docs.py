"""The documentation: its programs, what the reference has, and the built site in a browser (`make docs` builds it)."""

import contextlib
import functools
import http.server
import importlib
import json
import pathlib
import re
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


def test_pictures_are_shown_below_the_code_that_draws_them(tool, tmp_path):
    pytest.importorskip("matplotlib").use("agg")
    draws = "import matplotlib.pyplot as plt\nfigure = plt.figure(figsize=(2, 1))\n"
    named = page(tmp_path, f"```python\n{draws}title = figure.suptitle('A line')\n```\n")
    text, _ = tool("execute").execute(named, tmp_path)
    assert text.endswith("```\n\n![A line](images/page-1.png){ .picture width=200 }\n")
    assert (tmp_path / "page-1.png").read_bytes().startswith(b"\x89PNG")
    execute = tool("execute")
    with pytest.raises(execute.Failure, match="figure 1: it has no title"):
        execute.execute(page(tmp_path, f"```python\n{draws}```\n"), tmp_path)
    importlib.import_module("matplotlib.pyplot").close("all")


# -------------------------------------------------------------------- the gallery
EXAMPLE = ("---\nexecute: true\n---\n# A *title*\n\nFirst sentence. Second [one](../a.md).\n\n```python\nx = 1\n```\n\n"
           "## More\n\n```python\nplt.plot(x)\n```\n")


def test_the_gallery_lists_each_example_once(tool):
    gallery, folder = tool("gallery"), ROOT / "docs" / "gallery"
    found = gallery.examples(folder)
    index = (folder / "index.md").read_text(encoding="utf-8")
    assert len(found) >= 12
    text = gallery.cards(index, found, {name: f"images/{name}-1.png" for name in found})
    assert text.count("<li>") == len(found) and "<!-- examples" not in text
    menu = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [name for name in found if menu.count(f"gallery/{name}.md") != 1] == []


def test_examples_are_programs_with_a_picture(tool):
    for name, example in tool("gallery").examples(ROOT / "docs" / "gallery").items():
        program = tool("gallery").script(example)
        compile(program, name, "exec")
        assert program.endswith("plt.show()\n") and len(example.summary) < 160, name
        cells = json.loads(tool("gallery").notebook(example))["cells"]
        assert "".join(cells[0]["source"]).startswith("# ") and all(
            cell["cell_type"] in ("markdown", "code") and cell["source"] for cell in cells), name
        assert len({cell["id"] for cell in cells}) == len(cells), name


def test_a_notebook_and_a_script_of_an_example(tool, tmp_path):
    gallery = tool("gallery")
    example = gallery.read(page(tmp_path, EXAMPLE))
    assert example[:3] == ("page", "A *title*", "First sentence.")
    cells = json.loads(gallery.notebook(example))["cells"]
    assert [(cell["cell_type"], "".join(cell["source"])) for cell in cells] == [
        ("markdown", "# A *title*\n\nFirst sentence. Second one."), ("code", "x = 1"), ("markdown", "## More"),
        ("code", "plt.plot(x)")]
    assert gallery.script(example) == ("# %% [markdown]\n# # A *title*\n#\n# First sentence. Second one.\n\n"
                                       "# %%\nx = 1\n\n# %% [markdown]\n# ## More\n\n# %%\nplt.plot(x)\n\nplt.show()\n")
    assert "(page.ipynb), [Python script](page.py)" in gallery.with_downloads(example.text, "page")


@pytest.mark.parametrize("text, said", [
    ("No heading\n", "begins with a heading and a paragraph"),
    (EXAMPLE + "\n```bash\nls\n```\n", "Python code outside of tabs only"),
])
def test_pages_that_are_no_examples(tool, tmp_path, text, said):
    with pytest.raises(ValueError, match=said):
        tool("gallery").read(page(tmp_path, text))


@pytest.mark.parametrize("index, pictures, said", [
    ("", {"page": "1.png"}, "'page' 0 times"), ("<!-- examples: page page -->", {"page": "1.png"}, "'page' 2 times"),
    ("<!-- examples: page other -->", {"page": "1.png"}, "'other' 1 times; such a page is not there"),
    ("<!-- examples: page -->", {}, "with no picture"),
])
def test_lists_that_do_not_fit_the_examples(tool, tmp_path, index, pictures, said):
    gallery = tool("gallery")
    with pytest.raises(ValueError, match=said):
        gallery.cards(index, {"page": gallery.read(page(tmp_path, EXAMPLE))}, pictures)


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
@pytest.fixture(scope="module")
def made():
    """The reference; it takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools" / "docs"))
        return importlib.import_module("reference").Reference()


def test_every_public_name_is_in_the_reference(tool, made):
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


def test_names_have_their_anchors(made):
    for name, link in {**made.methods, **made.names}.items():
        page, _, anchor = link.partition("#")
        assert page in made.pages and (not anchor or f"{{ #{anchor} }}" in made.pages[page]), name


@pytest.mark.parametrize("name", ["gluon.nn.Dense", "optimizer.Adam", "metric.F1", "io.NDArrayIter",
                                  "gluon.loss.L2Loss", "gluon.Trainer", "nd.Convolution"])
def test_a_page_of_its_own_has_all_sections(made, name):
    text = made.pages[f"api/{name.replace('.', '/')}.md"]
    assert text.count(f"# mx.{name}\n") == 1
    for section in ("Parameters", "Example", "See also", "Source"):
        assert f"## {section}\n" in text, section


def test_signatures_are_python(made):
    """MXNet has required parameters behind optional ones; these are shown as keywords."""
    wrong, count = [], 0
    for path, text in made.pages.items():
        for name, given in re.findall(r"```python\n(?:class )?(mx\.[\w.]+)(\([^\"]*?\))\n```", text):
            if name != "mx.onnx.export_model" and given != "(...)" and "\n    def" not in given:
                count += 1
                try:
                    compile(f"def function{given}: pass", path, "exec")
                except SyntaxError:
                    wrong.append(name + given)
    assert not wrong and count > 1000
    assert "bias=None, *, kernel, stride=()" in made.pages["api/nd/Convolution.md"]


def test_every_parameter_has_a_meaning(made):
    rows = [(path, row) for path, text in made.pages.items() if path.count("/") > 1
            for table in re.findall(r"\| Parameter \|[^\n]*Meaning \|\n[|-]*\n((?:\|.*\n)*)", text)
            for row in table.splitlines()]
    lacking = [(path, row) for path, row in rows if row.endswith("|  |")]
    assert len(rows) > 4000 and not lacking


def test_inputs_of_operators_have_their_shapes(made):
    text = made.pages["api/nd/Convolution.md"]
    assert "| `bias` | array |  | <code>(num_filter,)</code> | bias, one value for each output channel |" in text
    assert "Output space: floor(" in text


def test_examples_made_for_classes_run(tool, made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(made.examples) > 50
    for name in ("mx.optimizer.Adam", "mx.metric.F1", "mx.io.CSVIter", "mx.init.Xavier", "mx.gluon.loss.Loss"):
        assert tool("execute").run_python(made.examples[name], {"mx": mx}, name).strip(), name


# -------------------------------------------------------------------- the map
def test_the_map_has_a_row_for_every_name(tool):
    mapping = tool("mapping")
    old, new = mapping.flat()
    assert {"nd.Convolution", "gluon.nn.Dense", "metric.F1"} <= old and {"gluon.metric.F1", "npx.softmax"} <= new
    pages = {"mx.nd.Convolution": "api/nd/Convolution.md"}
    rows = {row[0] or row[1]: row for row in mapping.rows(pages, old | new - {"nd.waitall"}, {"F1"}, lambda name: (
        "jax", "torch", "") if name == "nd.Convolution" else None)}
    assert rows["mx.nd.Convolution"] == ["mx.nd.Convolution", "mx.nd.Convolution", "api/nd/Convolution.html", "", "jax",
                                         "torch", ""]
    assert rows["mx.metric.F1"][:4] == ["mx.metric.F1", "mx.gluon.metric.F1", "", "differs"]
    assert "mx.sym.Convolution" not in rows and "mx.gluon.metric.F1" not in rows
    shown = {name.removeprefix("mx.") for row in rows.values() for name in row[:2]}
    assert {n for n in old | new if not n.startswith("sym")} <= shown


def test_names_that_the_page_of_differences_speaks_of(tool):
    assert tool("mapping").mentioned("`mx.nd.clip(x)` and `SGD`, not `mean` or `a b`") == {"clip", "SGD"}


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


_HITS = """return [...document.querySelectorAll(".md-search-result__list > .md-search-result__item")].slice(0, 3).map(
    item => item.querySelector("a.md-search-result__link").href)"""


def search(browser, text, found, seconds=20):
    """Types into the search until `found` is true of the first three links, and returns these."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait
    field = browser.find_element(By.CSS_SELECTOR, "input[data-md-component=search-query]")
    field.click()
    field.clear()
    field.send_keys(text)
    with contextlib.suppress(Exception):  # the caller tells what is wrong
        WebDriverWait(browser, seconds, poll_frequency=0.05).until(lambda driver: found(driver.execute_script(_HITS)))
    return browser.execute_script(_HITS)


def test_the_search_finds_names_questions_and_misspelled_words(browser, address, tool):
    queries = tool("queries").QUERIES
    browser.get(f"{address}/index.html")
    search(browser, "softmax", bool, 60)  # makes the index
    missed = {}
    for text, pages in queries.items():
        wanted = {f"{address}/{page}" for page in pages}
        hits = search(browser, text, lambda links, wanted=wanted: wanted & {re.split("[?#]", x)[0] for x in links}, 3)
        if not wanted & {re.split("[?#]", link)[0] for link in hits}:
            missed[text] = hits
    assert len(queries) == 60 and not missed


def test_a_hit_leads_to_an_operators_page(browser, address):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait
    browser.get(f"{address}/index.html")
    page = f"{address}/api/nd/FullyConnected.html"
    assert search(browser, "FullyConnected", lambda links: links and links[0].startswith(page))[0].startswith(page)
    browser.find_element(By.CSS_SELECTOR, "a.md-search-result__link").click()
    wait = WebDriverWait(browser, 60)
    wait.until(lambda driver: page in driver.current_url)
    heading = wait.until(lambda driver: driver.find_element(By.TAG_NAME, "h1"))
    assert "mx.nd.FullyConnected" in heading.text
    assert any("mx.nd" in code.text for code in browser.find_elements(By.CSS_SELECTOR, ".md-content pre code"))


def test_the_map_is_filtered(browser, address):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait
    browser.get(f"{address}/map.html")

    def rows():
        return [row.text for row in browser.find_elements(By.CSS_SELECTOR, "#map tbody tr")]
    WebDriverWait(browser, 30).until(lambda driver: len(rows()) == 150)
    browser.find_element(By.ID, "map-text").send_keys("gluon.nn.dense")
    WebDriverWait(browser, 30).until(lambda driver: len(rows()) == 1)
    assert "flax.nnx.Linear" in rows()[0] and "torch.nn.Linear" in rows()[0]
    link = browser.find_element(By.CSS_SELECTOR, "#map tbody a").get_attribute("href")
    assert link == f"{address}/api/gluon/nn/Dense.html"


def test_all_pages_of_the_map_and_the_search_are_there(address):
    anchors = functools.cache(lambda page: (SITE / page).read_text(encoding="utf-8"))
    names = [page for _, page in json.loads((SITE / "assets/names.json").read_text())]
    rows = json.loads((SITE / "assets/map.json").read_text())
    wrong = {link for link in [*names, *(row[2] for row in rows if row[2])] for page, _, anchor in [link.partition("#")]
             if not (SITE / page).is_file() or anchor and f'id="{anchor}"' not in anchors(page)}
    assert not wrong and len(rows) > 1800
    assert sum(bool(row[4] or row[5]) for row in rows) > 900


def test_the_header_names_the_version_and_the_menu_the_reference(browser, address):
    from selenium.webdriver.common.by import By
    browser.get(f"{address}/index.html")
    assert mx.libinfo.__mxjax_version__ in browser.find_element(By.CSS_SELECTOR, ".md-header__topic").text
    entries = browser.find_elements(By.XPATH, "//nav[contains(@class, 'md-nav--primary')]//li/*[contains(., "
                                              "'API reference')]")
    assert any(0 < entry.rect["y"] < 900 for entry in entries if entry.is_displayed())


def test_a_tutorial_shows_what_its_code_prints(browser, address):
    from selenium.webdriver.common.by import By
    browser.get(f"{address}/tutorials/autograd.html")
    outputs = [block.text for block in browser.find_elements(By.CSS_SELECTOR, ".output code")]
    assert any("[ 3. 12. 27.]" in text for text in outputs), outputs


def test_the_gallerys_downloads_and_pictures_are_there(address, tool):
    built = (SITE / "gallery" / "index.html").read_text(encoding="utf-8")
    for name in tool("gallery").examples(ROOT / "docs" / "gallery"):
        picture = re.search(rf'href="{name}.html"><img src="(images/{name}-\d+.png)"', built)
        assert picture and (SITE / "gallery" / picture[1]).stat().st_size > 5000, name
        assert (SITE / "gallery" / f"{name}.ipynb").is_file() and (SITE / "gallery" / f"{name}.py").is_file()


def test_nothing_is_fetched_from_elsewhere(browser, address):
    browser.get(f"{address}/index.html")
    fetched = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert fetched and all(name.startswith(address) for name in fetched), fetched
