"""What is looked at in a page, each by a person's means: the mouse, the keyboard, the eyes."""
import json
import socket

import trees

# As in report/html.rs.
SETS_IN_A_PAGE = 50_000
ROWS = 50
# Text of this ratio to what is behind it can be read: WCAG 2, level AA.
CONTRAST = 4.5
# Of what a person waits for; measured in the page, so that the way there does not count.
PATIENCE_MS = 1_000

SETS, CLAIMS = "#sets .tools ~ .scroll tbody", "#claims tbody"


def cells(browser, table, column):
    return browser.ask(f"""[...document.querySelectorAll('{table} tr')].map((row) =>
        row.cells[{column}] ? row.cells[{column}].innerText : '')""")


def paths(browser, table=SETS):
    """Of each row, all that are shown."""
    return browser.ask(f"""[...document.querySelectorAll('{table} tr')].map((row) =>
        [...row.querySelectorAll('.path')].map((path) =>
            path.querySelector('.folder').textContent + path.querySelector('.name').textContent))""")


def count(browser, section):
    return browser.ask(f"document.querySelector('#{section} .pager span').textContent")


def shown_size(count):
    """As the program says it."""
    if count < 1024:
        return f"{count} byte" + ("" if count == 1 else "s")
    count, unit = count / 1024, 0
    while count >= 1023.95:
        count, unit = count / 1024, unit + 1
    return f"{count:.1f} {['KiB', 'MiB', 'GiB', 'TiB'][unit]}"


def equal(found, expected, what):
    assert found == expected, f"{what}: {found!r} instead of {expected!r}"


# ------------------------------------------------------------ quiet

def nothing_goes_wrong_and_nothing_is_fetched(browser, report):
    browser.open(report.page)
    # Everything that can be drawn is.
    for section in ("sets", "claims"):
        for _ in range(4):
            if not browser.ask(f"document.querySelector('#{section} [aria-label=\"Next page\"]').disabled"):
                browser.click(f"#{section} [aria-label='Next page']")
    browser.click("#theme")
    said = browser.happened("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
    equal(said, [], "said to the console")
    equal(browser.happened("Page.javascriptDialogOpening"), [], "dialogs")
    urls = [sent["request"]["url"] for sent in browser.happened("Network.requestWillBeSent")]
    equal([url for url in urls if not url.startswith("data:")], [report.page.as_uri()], "requests")


def the_policy_stops_what_gets_in(browser, report):
    browser.open(report.page)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/"
        done = browser.ask(f"""(async () => {{
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.body.append(script);
            document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.ran = true'>");
            const image = new Image();
            image.src = {json.dumps(address)};
            document.body.append(image);
            const fetched = await fetch({json.dumps(address)}).then(() => "fetched", () => "refused");
            return [window.ran === undefined, fetched];
        }})()""")
        equal(done, [True, "refused"], "a script that got in, and what it asks for")
        try:
            server.accept()
            raise AssertionError("somebody was called")
        except TimeoutError:
            pass


# ------------------------------------------------------------ names

def hostile_names_are_shown_and_nothing_else(browser, report):
    browser.open(report.page)
    browser.type("#sets input", "/hostile/")
    found = [path.split("/hostile/")[1] for row in paths(browser) for path in row]
    expected = [f"{side}/{shown}" for _, shown in trees.HOSTILE for side in ("one", "two")]
    across = trees.ACROSS.decode()
    expected += [f"a/</{across}", "b/a link", f"b/</{across}"]
    equal(sorted(found), sorted(expected), "names")
    inside = browser.ask("document.querySelectorAll('td img, td script, td b, #map img, #map script').length")
    equal(inside, 0, "elements that came from names")
    equal(browser.ask("window.ran === undefined && document.scripts.length"), 2, "scripts")
    equal(browser.happened("Page.javascriptDialogOpening"), [], "dialogs")
    tags = browser.ask("[...document.querySelectorAll('#sets .tag')].map((tag) => tag.textContent)")
    equal(tags, ["same file as above"], "hard links")


def an_offline_root_is_marked(browser, report):
    browser.open(report.page)
    states = browser.ask("[...document.querySelectorAll('#roots .state')].map((state) => state.textContent)")
    equal(states, ["offline", "online", "online"], "states of the roots")
    browser.type("#sets input", "/away/file")
    equal(len(paths(browser)), 1, "sets with a file that is offline")
    tags = browser.ask("[...document.querySelectorAll('#sets .tag')].map((tag) => tag.textContent)")
    equal(tags, ["offline"], "tags")
    browser.type("#claims input", "/away")
    folders = browser.ask("""[...document.querySelectorAll('#claims .path')].map((line) => line.textContent)""")
    marked = [path for path in folders if path.endswith("offline")]
    equal(len(marked), len([path for path in folders if "/away" in path]), "folders that are offline")
    assert marked, "there is none"
    won = browser.ask("[...document.querySelectorAll('#claims tbody td:first-child')].map((cell) => cell.textContent)")
    equal(set(won), {"0 bytes"}, "what they win")


# ------------------------------------------------------------ tables

def sorting_is_true(browser, report):
    browser.open(report.page)
    keys = [("reclaimable", 0, "reclaimable"), ("size", 1, "size")]
    for key, column, field in keys:
        expected = [shown_size(group[field]) for group in sorted(report.sets, key=lambda group: -group[field])]
        if key != "reclaimable":
            browser.click(f"#sets [data-key={key}]")
        equal(cells(browser, SETS, column), expected[:ROWS], f"falling by {key}")
        browser.click(f"#sets [data-key={key}]")
        equal(cells(browser, SETS, column), expected[::-1][:ROWS], f"rising by {key}")
        aria = browser.ask(f"document.querySelector('#sets [data-key={key}]').closest('th').ariaSort")
        equal(aria, "ascending", "what is said of it")
    browser.click("#sets [data-key=copies]")
    copies = sorted((len(group["paths"]) for group in report.sets), reverse=True)
    equal(cells(browser, SETS, 2), [str(number) for number in copies[:ROWS]], "falling by copies")
    browser.click("#sets [data-key=path]")
    first = [row[0] for row in paths(browser)]
    equal(first, sorted(first), "rising by path")
    browser.click("#claims [data-key=kind]")
    kinds = [kind.split()[-1].split("\u00a0")[-1] for kind in cells(browser, CLAIMS, 1)]
    equal(kinds, sorted(kinds, key=["equal", "alike", "held"].index), "folders by kind")


def searching_filters(browser, report):
    browser.open(report.page)
    everything = count(browser, "sets")
    equal(everything, f"1\u2013{ROWS} of {len(report.sets)}", "of all")
    browser.type("#sets input", "DEEP-3/ file-00")
    expected = [group for group in report.sets if any("deep-3/file-00" in str(path) for path in group["paths"])]
    assert len(expected) >= 2, "the tree has no such files"
    equal(count(browser, "sets"), f"1\u2013{len(expected)} of {len(expected)}", "found")
    for row in paths(browser):
        assert any("deep-3/file-00" in path for path in row), f"{row} does not match"
    browser.type("#sets input", "there is no such thing")
    equal(count(browser, "sets"), "0 of 0", "found")
    equal(cells(browser, SETS, 0), ["Nothing matches."], "said then")
    browser.type("#sets input", "")
    equal(count(browser, "sets"), everything, "all again")


def pages_are_turned(browser, report):
    browser.open(report.page)
    seen = paths(browser)
    while not browser.ask("document.querySelector('#sets [aria-label=\"Next page\"]').disabled"):
        browser.click("#sets [aria-label='Next page']")
        seen += paths(browser)
    equal(len(seen), len(report.sets), "sets on all pages")
    equal(len({row[0] for row in seen}), len(seen), "different ones")
    browser.click("#sets [aria-label='First page']")
    equal(paths(browser)[0], seen[0], "the first again")


def folders_are_those_that_are_alike(browser, report):
    browser.open(report.page)
    for kind, field in (("equal", "exact"), ("alike", "partial"), ("held", "contained")):
        browser.ask(f"""(() => {{ const select = document.querySelector('#claims select');
            select.value = '{kind}'; select.dispatchEvent(new Event('change')); }})()""")
        expected = [shown_size(claim["reclaimable"]) for claim in report.folders[field]]
        assert expected, f"the tree has no folders that are {kind}"
        equal(cells(browser, CLAIMS, 0), expected[:ROWS], kind)
    text = browser.ask("document.querySelector('#claims').innerText")
    assert "only here" not in text, "that is said of others"


# ------------------------------------------------------------ treemap

def tiles(browser):
    return browser.ask("[...document.querySelectorAll('#map .tile')].map((tile) => tile.ariaLabel)")


def crumbs(browser):
    return browser.ask("[...document.querySelectorAll('#crumbs button')].map((crumb) => crumb.textContent)")


def the_treemap_goes_in_and_out(browser, report):
    browser.open(report.page)
    top = tiles(browser)
    equal(len(top), 3, "tiles of the roots")
    equal(len(crumbs(browser)), 1, "crumbs")
    at = next(at for at, tile in enumerate(top) if "/plain:" in tile)
    browser.click("#map .tile", at)
    inside = tiles(browser)
    assert len(crumbs(browser)) == 2 and crumbs(browser)[1].endswith("/plain"), f"crumbs: {crumbs(browser)}"
    assert any(tile.startswith("alone: ") and " 0 % has an equal file" in tile for tile in inside), f"{inside}"
    assert any(tile.startswith("part-0: ") and " 100 % has an equal file" in tile for tile in inside), f"{inside}"
    area = browser.ask("""[...document.querySelectorAll('#map .tile')].map((tile) => {
        const box = tile.getBoundingClientRect(); return (box.width + 2) * (box.height + 2); })""")
    equal(area, sorted(area, reverse=True), "areas fall with sizes")
    whole = browser.ask("(map.clientWidth + 2) * (map.clientHeight + 2)")
    assert abs(sum(area) - whole) < whole / 100, f"tiles fill {sum(area)} of {whole}"
    browser.click("#map .tile", next(at for at, tile in enumerate(inside) if tile.startswith("part-0: ")))
    equal(crumbs(browser)[2:], ["part-0"], "crumbs")
    browser.click("#crumbs button", 0)
    equal(tiles(browser), top, "out again")


def the_treemap_is_for_keyboards(browser, report):
    browser.open(report.page)
    focused = "document.activeElement.ariaLabel"
    browser.ask("document.querySelector('#crumbs button').focus()")
    browser.press("Tab")
    top = tiles(browser)
    equal(browser.ask(focused), top[0], "the one stop for Tab")
    browser.press("ArrowRight")
    equal(browser.ask(focused), top[1], "to the right")
    browser.press("Home")
    ring = browser.ask("getComputedStyle(document.activeElement).outlineStyle")
    equal(ring, "solid", "the ring around what has the focus")
    browser.press("Enter")
    equal(len(crumbs(browser)), 2, "crumbs after Enter")
    equal(browser.ask(focused), tiles(browser)[0], "the focus inside")
    browser.press("Escape")
    equal(tiles(browser), top, "out by Escape")
    equal(browser.ask(focused), top[0], "the focus where it came from")


# ------------------------------------------------------------ eyes

MEASURE = """(() => {
    const parse = (text) => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
        .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (node) => {
        for (let at = node; at; at = at.parentElement) {
            const colour = parse(getComputedStyle(at).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
    };
    const found = [];
    for (const node of document.body.querySelectorAll("*")) {
        const hasText = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
        if (!hasText || !node.checkVisibility() || node.tagName === "OPTION") continue;
        const [one, other] = [parse(getComputedStyle(node).color), behind(node)].map(light);
        const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
        found.push([ratio, node.className + " " + node.textContent.slice(0, 40)]);
    }
    return found.sort((a, b) => a[0] - b[0]);
})()"""


def text_can_be_read_in_light_and_dark(browser, report):
    seen = {}
    for scheme, toggled in (("light", False), ("dark", False), ("light", True), ("dark", True)):
        browser.open(report.page, scheme=scheme)
        if toggled:
            browser.click("#theme")
        browser.click("#map .tile", next(at for at, tile in enumerate(tiles(browser)) if "/plain:" in tile))
        found = browser.ask(MEASURE)
        assert len(found) > 200, f"only {len(found)} texts"
        assert found[0][0] >= CONTRAST, f"{scheme}, toggled {toggled}: {found[0]}"
        seen[scheme, toggled] = browser.ask("getComputedStyle(document.body).backgroundColor")
    assert seen["light", False] != seen["dark", False], "both are the same"
    equal(seen["light", True], seen["dark", False], "light, toggled")
    equal(seen["dark", True], seen["light", False], "dark, toggled")


def every_step_of_the_legend_can_be_read_on(browser, report):
    for scheme in ("light", "dark"):
        browser.open(report.page, scheme=scheme)
        browser.ask("""document.querySelectorAll('#legend .swatch').forEach((swatch) => swatch.append("x"))""")
        steps = [ratio for ratio, what in browser.ask(MEASURE) if what.startswith("swatch")]
        equal(len(steps), 5, "steps")
        assert min(steps) >= CONTRAST, f"{scheme}: {steps}"


def it_has_headings_and_labels(browser, report):
    browser.open(report.page)
    equal(browser.ask("document.querySelectorAll('h1').length"), 1, "first headings")
    equal(browser.ask("[...document.querySelectorAll('main section')].every((s) => s.querySelector('h2').id === s.getAttribute('aria-labelledby'))"), True, "headings")
    unnamed = browser.ask("""[...document.querySelectorAll('button, input, select')].filter((node) =>
        !(node.ariaLabel || node.textContent.trim() || (node.labels && node.labels.length))).length""")
    equal(unnamed, 0, "controls without a name")
    equal(browser.ask("[...document.querySelectorAll('thead th')].every((head) => head.scope === 'col')"), True, "scopes")


def a_narrow_window_is_not_left_to_the_side(browser, report):
    browser.open(report.page, width=390, height=800)
    over = browser.ask("document.documentElement.scrollWidth - innerWidth")
    assert over <= 0, f"{over} pixels too wide"


def without_scripts_the_totals_and_the_largest_sets_are_there(browser, report):
    browser.open(report.page, scripts=False)
    text = browser.ask("document.body.innerText")
    for expected in (shown_size(report.listing["totals"]["reclaimable_bytes"]), "sets of duplicates", "/plain"):
        assert expected in text, f"no {expected!r} in it"
    rows = browser.ask("document.querySelectorAll('#largest tbody tr').length")
    equal(rows, min(100, len(report.sets)), "sets")
    assert "No script runs here" in text and "Where the space goes" not in text, text[:200]
    assert trees.ACROSS.decode() in text, "a hostile name is text"


# ------------------------------------------------------------ many

def large_pages_stay_quick(browser, report):
    browser.open(report.page)
    equal(count(browser, "sets"), f"1\u2013{ROWS} of {SETS_IN_A_PAGE:,}", "sets")
    note = browser.ask("document.querySelector('#sets .note').textContent")
    left_out = report.listing["totals"]["sets"] - SETS_IN_A_PAGE
    assert f"{left_out:,} are left out" in note and "dupes report files" in note, note
    acts = {
        "sort": "document.querySelector('#sets [data-key=size]').click()",
        "sort by path": "document.querySelector('#sets [data-key=path]').click()",
        "search": """(() => { const input = document.querySelector('#sets input'); input.value = 'file-7';
            input.dispatchEvent(new Event('input')); })()""",
        "turn": "document.querySelector('#sets [aria-label=\"Next page\"]').click()",
        "map": "document.querySelector('#map .tile').click()",
    }
    for name, act in acts.items():
        took = browser.ask(f"(() => {{ const began = performance.now(); {act}; document.body.offsetHeight; return performance.now() - began; }})()")
        print(f"        {name}: {took:.0f} ms")
        assert took < PATIENCE_MS, f"{name} took {took:.0f} ms"
        drawn = browser.ask("document.querySelectorAll('#sets tbody tr').length")
        assert drawn <= ROWS, f"{drawn} rows are drawn"
    found = [name for row in paths(browser) for name in row]
    assert found and all(any("file-7" in path for path in row) for row in paths(browser)), "the search"


ALL = [(name.replace("_", " "), look) for name, look in list(globals().items())
       if callable(look) and getattr(look, "__code__", None) and look.__code__.co_varnames[:2] == ("browser", "report")]


def draw(browser, page, picture):
    """Down to the third set."""
    width = 1240
    browser.open(page, width=width, height=1600)
    height = browser.ask(f"document.querySelectorAll('{SETS} tr')[2].getBoundingClientRect().bottom")
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=int(height), deviceScaleFactor=1, mobile=False)
    picture.write_bytes(browser.screenshot())
