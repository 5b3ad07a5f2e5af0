#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Looks at a built site: tests/site.py DIR. Each link leads to a file of the site, with that anchor. No page loads a thing from another server, and no
two elements of a page's text have one id. Each page is in the navigation, in the search's index and in llms.txt. Tables and code of the Markdown are
tables and code of the page. In Chromium, if it is there, pages and a search make requests to the site alone, and the search finds something."""
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
SCRIPTS_KNOW = {"unpkg.com", "api.github.com", "gitlab.com", "github.com"}
ASKS = re.compile(r'class="[^"]*\bmermaid\b|data-md-component="source"|data-md-source')
BROWSERS = ("chromium-headless-shell", "chromium")
SEARCHES = {"retention": "howto/retention.html", "merge_over_time": "profql.html", "FunctionEatsCPU": "runbooks.html"}


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
        if name.endswith(".js"):
            hosts = set(re.findall(r"[\"'`(]https?://([\w.-]+)", site.read(name))) | set(re.findall(r"[\"'`]//([\w-]+\.[\w.-]+)/", site.read(name)))
            known = SCRIPTS_KNOW | {"www.w3.org", "fb.me", "reactjs.org"}
            yield from (f"{name}: names the server {h}: does it ask it?" for h in sorted(hosts - known))


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
    told = {path for path, _ in listed}
    yield from (f"llms.txt: {path} is not there" for path in sorted(told - set(site.files)))
    yield from (f"llms.txt: says nothing of {path}" for path, words in listed if not words)
    for name in site.pages:
        if name != "404.html":
            yield from [f"{name}: is not in the navigation"] if name not in first else []
            yield from [f"{name}: is not in the search's index"] if name not in index else []
            yield from [f"llms.txt: lacks {name}"] if name[:-len("html")] + "md" not in told else []


def check_markdown(site):
    """Of each page as many tables and blocks of code as its Markdown has, and no marks of Markdown in the text."""
    for _, _, page in build_site.navigation():
        name = page[:-len("md")] + "html"
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


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def check_browser(site):
    """Which requests a browser makes on some pages and in a search, and what the search finds."""
    browser = next((b for b in BROWSERS if shutil.which(b)), None)
    if not browser:
        print("site: there is no Chromium: its requests are not looked at")
        return
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site.root))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_address[1]}/"
    for path, want in [("index.html", None), ("page.html", None)] + [(f"index.html?q={w}", found) for w, found in SEARCHES.items()]:
        asked, dom = browse(browser, base + path)
        yield from (f"{path}: asks {u}" for u in asked if not u.startswith(base))
        if not any(u.startswith(base) for u in asked):
            yield f"{path}: no request was seen"
        if want and want in site.pages and not re.search(r'<a[^>]* href="[^"]*' + re.escape(want) + r'[^"]*"[^>]* class="md-search-result', dom):
            yield f"{path}: the search does not find {want}"
    server.shutdown()


def browse(browser, url):
    """(addresses that it asked, the page as it is then)"""
    with tempfile.TemporaryDirectory() as d:
        log = os.path.join(d, "net.json")
        p = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
                            "--disable-sync", f"--user-data-dir={d}/profile", f"--log-net-log={log}", "--virtual-time-budget=8000", "--dump-dom", url],
                           capture_output=True, text=True, timeout=120)
        with open(log, encoding="utf-8") as f:
            text = f.read()
    asked = sorted(set(re.findall(r'"url":"((?:https?|wss?|ftp)://[^"]+)"', text)))
    return asked, p.stdout


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
