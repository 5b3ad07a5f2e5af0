#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Looks at a built site: tests/site.py DIR. Each link leads to a file of the site, with that anchor. No page loads a thing from another server, and no
two elements of a page's text have one id. Each page is in the navigation, in the search's index and in llms.txt. Tables and code of the Markdown are
tables and code of the page. In Chromium, if it is there, pages and searches ask no other server, no page is wider than a phone, and the search finds what it should."""
import functools
import html.parser
import http.server
import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "deploy"))
import build_site  # noqa: E402

LOADS = {"script": "src", "img": "src", "source": "src", "iframe": "src", "audio": "src", "video": "src", "embed": "src", "object": "data",
         "track": "src", "input": "src", "use": "href", "image": "href"}
LINKS_TO = {"canonical", "prev", "next", "alternate", "author", "license"}  # <link rel> that loads nothing
# What scripts of mkdocs-material would ask other servers for, each if a page had the element for it: none has (check_elements).
SCRIPTS_KNOW = {"unpkg.com", "api.github.com", "gitlab.com", "a"}  # the last is a test of URL()
ASKS = re.compile(r'class="[^"]*\bmermaid\b|data-md-component="source"|data-md-source')
BROWSERS = ("chromium-headless-shell", "chromium")
SEARCHES = {"retention": "howto/retention.html", "merge_over_time": "profql.html", "FunctionEatsCPU": "runbooks.html",
            "--storage.path": "configuration.html", '"debug information of others"': "agent.html"}
HOST = "site.test"
PHONE = 360  # px
PATIENCE = 600  # s
# A page that shows the pages of the site in a frame as wide as a phone, one after the other, and posts what it saw.
PROBE = """<!doctype html><iframe width=360 height=640 style="border: 0"></iframe><script>
const frame = document.querySelector('iframe'), steps = STEPS, said = [];
const until = async (holds) => { for (let i = 0; i < 300 && !holds(); i++) await new Promise((r) => setTimeout(r, 100)); };
(async () => {
	for (const step of steps) {
		frame.src = `/${step.page}${step.search ? `?q=${encodeURIComponent(step.search)}` : ''}`;
		await new Promise((r) => { frame.onload = r; });
		const d = frame.contentDocument, one = { width: d.documentElement.scrollWidth, wide: '', found: [] };
		if (one.width > 360)
			one.wide = [...d.querySelectorAll('article *')].filter((e) => e.getBoundingClientRect().right > 361 && !e.closest('pre, .md-typeset__table, table'))
				.map((e) => e.outerHTML.slice(0, 80)).slice(0, 3).join(' ');
		if (step.search) {
			await until(() => /match/.test(d.querySelector('.md-search-result__meta')?.textContent ?? ''));
			one.found = [...d.querySelectorAll('.md-search-result__link')].map((a) => a.getAttribute('href'));
		}
		said.push(one);
	}
	fetch('/said', { method: 'POST', body: JSON.stringify(said) });
})();
</script>
"""


class Page(html.parser.HTMLParser):
    """A page: its links, what it loads, and of its text the ids and counts of elements."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.ids, self.own_ids, self.counts, self.style = [], [], set(), [], {}, []
        self.article = self.code = 0
        self.words = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        at = dict(attributes)
        self.article += tag == "article"
        self.code += tag in ("pre", "code", "script", "style")
        if "id" in at:
            self.ids.add(at["id"])
            self.own_ids += [at["id"]] if self.article else []
        if tag == "a" and at.get("href") is not None:
            self.links.append(at["href"])
        if tag == "link" and not set((at.get("rel") or "").split()) & LINKS_TO:
            self.loads.append(at.get("href") or "")
        if at.get(LOADS.get(tag)):
            self.loads.append(at[LOADS[tag]])
        self.loads += [part.split()[0] for part in (at.get("srcset") or "").split(",") if part.strip()]
        self.style.append(at.get("style") or "")
        if self.article:
            self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag):
        self.article -= tag == "article"
        self.code -= tag in ("pre", "code", "script", "style")

    def handle_data(self, data):
        if self.article and not self.code:
            self.words.append(data)


class Site:
    def __init__(self, root):
        self.root = root
        self.files = sorted(os.path.relpath(os.path.join(d, n), root) for d, _, names in os.walk(root) for n in names)
        self.pages = {n: Page(self.read(n)) for n in self.files if n.endswith(".html")}

    def read(self, name):
        with open(os.path.join(self.root, name), encoding="utf-8") as f:
            return f.read()

    def resolve(self, name, target):
        """(file, anchor) that a relative address means on that page."""
        to, _, anchor = target.partition("#")
        to = urllib.parse.unquote(to.partition("?")[0])
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), to)) if to else name
        return ("index.html" if path == "." else path), urllib.parse.unquote(anchor)


def check_links(site):
    for name, page in site.pages.items():
        if name == "404.html":  # its addresses begin with /, wherever the site is
            continue
        for target in page.links:
            if build_site.OTHER_SERVER.match(target):
                continue
            path, anchor = site.resolve(name, target)
            if path not in site.files:
                yield f"{name}: a link to {target}, which is not there"
            elif anchor and path in site.pages and anchor not in site.pages[path].ids:
                yield f"{name}: a link to {target}: {path} has no such anchor"
        yield from (f"{name}: {page.own_ids.count(i)} elements have the id {i}" for i in sorted(set(page.own_ids)) if page.own_ids.count(i) > 1)


def check_loads(site):
    """What a page, a style sheet or a script loads, or could."""
    for name, page in site.pages.items():
        urls = page.loads + [u for style in page.style for u in re.findall(r"url\([\"']?([^\"')]+)", style)]
        yield from lost(site, name, [u.lstrip("/") for u in urls] if name == "404.html" else urls)
        asks = ASKS.search(site.read(name))
        if asks:
            yield f"{name}: scripts of the theme ask another server because of {asks.group(0)}"
    for name in site.files:
        if name.endswith(".css"):
            text = re.sub(r"/\*.*?\*/", "", site.read(name), flags=re.S)
            yield from lost(site, name, [a or b for a, b in re.findall(r"url\([\"']?([^\"')]+)|@import\s+[\"']([^\"']+)", text)])
        if name.endswith(".js") and "/lunr/" not in name:  # those are for other languages
            hosts = set(re.findall(r"[\"'`](?:https?:)?//([\w.-]+)", re.sub(r"/\*.*?\*/", "", site.read(name), flags=re.S)))
            yield from (f"{name}: names the server {h}: does it ask it?" for h in sorted(hosts - SCRIPTS_KNOW))


def lost(site, name, urls):
    for u in urls:
        if u.startswith(("data:", "#", "javascript:")) or not u:
            continue
        if build_site.OTHER_SERVER.match(u):
            yield f"{name}: loads {u} from another server"
        elif site.resolve(name, u)[0] not in site.files:
            yield f"{name}: loads {u}, which is not there"


def check_whole(site):
    """Each page in the navigation, the search and llms.txt."""
    first = {site.resolve("index.html", t)[0] for t in site.pages["index.html"].links}
    index = {d["location"].partition("#")[0] for d in json.loads(site.read("search/search_index.json"))["docs"]}
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)(: .+)?$", site.read("llms.txt"), re.M)
    told = {build_site.built_as(path) for path, _ in listed}
    yield from (f"llms.txt: {path} is not there" for path, _ in listed if path not in site.files)
    yield from (f"llms.txt: says nothing of {path}" for path, words in listed if not words)
    for name in site.pages:
        if name != "404.html":
            yield from [f"{name}: is not in the navigation"] if name not in first else []
            yield from [f"{name}: is not in the search's index"] if name not in index else []
            yield from [f"llms.txt: lacks {name}"] if name not in told else []


def check_markdown(site):
    """Of each page as many tables and blocks of code as its Markdown has, and no marks of Markdown in the text."""
    for _, _, page in build_site.navigation():
        name = build_site.built_as(page)
        if name not in site.pages:
            continue
        with open(os.path.join(build_site.TOP, build_site.path_of(page)), encoding="utf-8") as f:
            markdown = f.read()
        blank, counts = build_site.prose(markdown).split("\n"), site.pages[name].counts
        tables = sum(bool(i and "|" in blank[i - 1] and build_site.DELIMITERS.match(line)) for i, line in enumerate(blank))
        if tables != counts.get("table", 0):
            yield f"{name}: {counts.get('table', 0)} tables, and {tables} in the Markdown"
        fences = fences_of(markdown)
        if fences > counts.get("pre", 0):
            yield f"{name}: {counts.get('pre', 0)} blocks of code, and {fences} fences in the Markdown"
        titles = [title for _, _, title in build_site.headings(markdown)]
        ids = site.pages[name].ids
        yield from (f"{name}: the heading {t!r} has no anchor {build_site.anchor(t)}" for t in titles if build_site.anchor(t) not in ids)
        text = "".join(site.pages[name].words)
        yield from (f"{name}: Markdown in the text: {m.group(0)!r}" for m in re.finditer(r"```.*|\|[ :]*--.*|\]\([\w./#-]+\)|(?m:^\s*[*-] \S.*)", text))


def fences_of(markdown):
    found, fence, comment = 0, None, False
    for line in markdown.split("\n"):
        m = build_site.FENCE.match(line)
        comment = comment or not fence and line.startswith(build_site.COMMENT)
        if comment:
            comment = build_site.COMMENT_END not in line
        elif fence:
            fence = None if m and m.group(2).startswith(fence) and not (m.group(3) + m.group(4)).strip() else fence
        elif m:
            fence, found = m.group(2), found + 1
    return found


class Handler(http.server.SimpleHTTPRequestHandler):
    """The proxy of the browser: the site is HOST, everything else is another server. And what PROBE reports."""

    def do_GET(self):
        at = urllib.parse.urlsplit(self.path)
        if at.netloc != HOST:
            self.server.beyond.append(self.path)
            self.send_error(502)
        elif at.path == "/probe":
            body = PROBE.replace("STEPS", json.dumps(self.server.steps)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        else:
            self.path = at.path
            super().do_GET()

    def do_CONNECT(self):
        self.server.beyond.append(self.path)
        self.send_error(502)

    def do_POST(self):
        self.server.said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
        self.server.done.set()

    def log_message(self, *_):
        pass


def check_browser(site):
    """In Chromium: what it asks other servers for, which pages are wider than a phone, and what the search finds."""
    browser = next((b for b in BROWSERS if shutil.which(b)), None)
    if not browser:
        print("site: there is no Chromium: its requests are not looked at")
        return
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=site.root))
    server.steps = [{"page": n} for n in site.pages if n != "404.html"]
    server.steps += [{"page": "index.html", "search": words} for words, page in SEARCHES.items() if page in site.pages]
    server.beyond, server.said, server.done = [], None, threading.Event()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as d:
        proxy = f"127.0.0.1:{server.server_address[1]}"
        p = subprocess.Popen([browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
                              "--disable-sync", f"--user-data-dir={d}", f"--proxy-server={proxy}", "--remote-debugging-port=0", f"http://{HOST}/probe"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        server.done.wait(PATIENCE)
        p.terminate()
        p.wait()
    server.shutdown()
    yield from (f"a page asks another server: {u}" for u in sorted(set(server.beyond)))
    if server.said is None:
        yield f"the browser did not look at all pages in {PATIENCE} s"
    for step, said in zip(server.steps, server.said or ()):
        name, words = step["page"], step.get("search")
        if said["width"] > PHONE and not words:
            yield f"{name}: {said['width']} px wide on a phone of {PHONE} px: {said['wide']}"
        if words and not any(SEARCHES[words] in href for href in said["found"]):
            yield f"the search for {words} does not find {SEARCHES[words]}, but {said['found'][:5]}"


def main():
    site, problems = Site(sys.argv[1]), []
    for check in (check_links, check_loads, check_whole, check_markdown, check_browser):
        problems += check(site)
    for p in problems:
        print(p)
    print(f"site: {len(site.pages)} pages, {len(problems)} problem(s)")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
