#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: Apache-2.0
"""Builds the site of mkdocs.yml into a directory: deploy/build_site.py DIR. Needs Debian's packages mkdocs and mkdocs-material.

mkdocs.yml names it as a hook, and tests/lint/pages reads pages with it. The pages are written for viewers of repositories (GitHub's Markdown). Where
Python's Markdown differs, they are changed on the way:
- a heading's anchor is made as there;
- the content of a list item is indented by four, and blank lines surround lists, tables and fences;
- of a fence's words (`sh test=NAME`) only the language stays;
- a link to a file that is not in docs/ leads into the repository if --repository=URL says where that is, and is text otherwise.
Beside each page lies its Markdown, for llms.txt (https://llmstxt.org) to lead to."""
import argparse
import glob
import os
import posixpath
import re
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Pages at the top of the tree that the site has, too; in its navigation they have no folder.
AT_TOP = ("CHANGELOG.md", "CONTRIBUTING.md", "HACKING.md", "SECURITY.md")
FENCE = re.compile(r"^( *)(`{3,}|~{3,})[ \t]*([\w+#.-]*)([^`]*)$")
ITEM = re.compile(r"^( *)([-*+]|\d{1,9}[.)])( +)(?=\S)")
DELIMITERS = re.compile(r"^ *\|?( *:?-+:? *\|)+( *:?-+:? *)?$")
CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
LINK = re.compile(r"(!?)\[((?:[^\[\]`]|`[^`]*`|!\[[^\]]*\]\([^()]*\)|\[[^\[\]]*\])*)\]\(\s*<?([^()\s<>]*)>?(\s+\"[^\"]*\")?\s*\)")
COMMENT, COMMENT_END = "<!--", "-->"  # at the beginning of a line
HEADING = re.compile(r"^ {0,3}(#{1,6})[ \t]+(.+?)[ \t]*#*$")
OTHER_SERVER = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.I)


def anchor(heading, separator="-"):
    """The anchor of a heading, as viewers of repositories make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def plain(markdown):
    """The text of a line of Markdown without its marks."""
    parts = re.split(r"(`[^`]*`)", LINK.sub(r"\2", markdown))  # code is every second
    return "".join(p.strip("`") if i % 2 else re.sub(r"(\*\*?|(?<!\w)_)(?=\S)(.+?)(?<=\S)\1(?!\w)", r"\2", p) for i, p in enumerate(parts))


def navigation(top=TOP):
    """[(titles of the sections, title or None, page)] of mkdocs.yml, `folder/*.md` expanded. A page is named as in the site."""
    found, sections = [], []  # sections: (indentation, title)
    with open(os.path.join(top, "mkdocs.yml"), encoding="utf-8") as f:
        text = f.read().partition("\nnav:\n")[2]
    for line in text.splitlines():
        m = re.match(r"( *)- (?:([^:#]+):)? *([\w./*-]*)$", line)
        if not m:
            break
        sections = [s for s in sections if s[0] < len(m.group(1))]
        if not m.group(3):
            sections.append((len(m.group(1)), m.group(2)))
            continue
        titles = [title for _, title in sections]
        found += [(titles, m.group(2), page) for page in expanded(m.group(3), top)]
    return found


def expanded(page, top=TOP):
    """The pages of an entry of the navigation: files of docs/, if it is a pattern."""
    if "*" not in page:
        return [page]
    found = [os.path.relpath(p, os.path.join(top, "docs")) for p in glob.glob(os.path.join(top, "docs", page))]
    return sorted(found, key=lambda p: (not p.endswith("/README.md"), p))


def path_of(page):
    """Where the tree has a page of the site."""
    return page if page in AT_TOP else "docs/" + page


def page_of(path):
    """The page, or file, of the site that a path of the tree is; None: the site does not have it."""
    if path == "README.md":
        return "index.md"
    return path if path in AT_TOP else path[len("docs/"):] if path.startswith("docs/") else None


def built_as(page):
    """The file of the site that a page becomes."""
    return re.sub(r"(^|/)README\.md$", r"\1index.md", page)[:-len("md")] + "html"


def is_there(page, top=TOP):
    return os.path.isfile(os.path.join(top, path_of(page)))


def prose(markdown):
    """The text with fences, indented code, comments and code in a line blanked: places stay."""
    lines, fence, item, gap, comment = [], None, False, True, False
    for line in markdown.split("\n"):
        m, blank = FENCE.match(line), True
        comment = comment or not fence and line.startswith(COMMENT)
        if comment:
            comment = COMMENT_END not in line
        elif fence:
            fence = None if m and m.group(2).startswith(fence) and not (m.group(3) + m.group(4)).strip() else fence
        elif m:
            fence = m.group(2)
        elif line.startswith("    ") and gap and not item:
            pass
        elif line.strip():
            gap, item, blank = False, bool(ITEM.match(line)) or item and (line.startswith(" ") or not gap), False
        else:
            gap = True
        lines.append(" " * len(line) if blank else line)
    return CODE.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), "\n".join(lines))


def headings(markdown):
    """[(line, level, title)]"""
    found, blank = [], prose(markdown).split("\n")
    for number, line in enumerate(markdown.split("\n"), 1):
        m = HEADING.match(line) if blank[number - 1].lstrip().startswith("#") else None
        if m:
            found.append((number, len(m.group(1)), plain(m.group(2))))
    return found


def links(markdown):
    """[(line, target, whether it is a picture)]"""
    text = prose(markdown)
    # A link around a picture has both.
    found = [(m.start(), m.group(3), m.group(1) == "!") for m in LINK.finditer(text)]
    found += [(m.start(2), at.group(3), True) for m in LINK.finditer(text) for at in LINK.finditer(m.group(2)) if at.group(1)]
    found += [(m.start(), m.group(1), False) for m in re.finditer(r"^ {0,3}\[[^\]]+\]:\s+<?([^\s>]+)", text, re.M)]
    found += [(m.start(), m.group(3), m.group(1) == "src") for m in re.finditer(r"<[a-z][^<>]*?\b(href|src)=([\"'])(.*?)\2", text)]
    return sorted((text.count("\n", 0, at) + 1, target, picture) for at, target, picture in found)


def relinked(markdown, page, repository=""):
    """The Markdown of a page with its links as the site has them."""
    path = path_of(page)

    def link(m):
        mark, text, target, title = m.group(1), m.group(2), m.group(3), m.group(4) or ""
        if OTHER_SERVER.match(target) or target.startswith(("#", "/")):
            return m.group(0)
        to, hash_, fragment = target.partition("#")
        to = posixpath.normpath(posixpath.join(posixpath.dirname(path), to))
        found = page_of(to)
        if found is not None:
            return f"{mark}[{text}]({posixpath.relpath(found, posixpath.dirname(page) or '.')}{hash_}{fragment}{title})"
        return f"{mark}[{text}]({repository.rstrip('/')}/{to}{hash_}{fragment}{title})" if repository else text

    blank, out, at = prose(markdown), [], 0
    for m in LINK.finditer(markdown):
        if blank[m.end() - 1] == ")":  # else it is code
            out += [markdown[at:m.start()], link(m)]
            at = m.end()
    return "".join(out) + markdown[at:]


def for_python(markdown):
    """The same for Python's Markdown."""
    out, items, fence, paragraph = [], [], None, False  # items: the column where the content of each open list item begins
    lines, comment, margin = markdown.split("\n"), False, 0

    def put(line, apart=False):
        if apart and out and out[-1].strip():
            out.append("")
        out.append(line)

    for number, line in enumerate(lines):
        indent, following = len(line) - len(line.lstrip(" ")), lines[number + 1] if number + 1 < len(lines) else ""
        opens, item, heading = FENCE.match(line), ITEM.match(line), HEADING.match(line)
        comment = comment or not fence and line.startswith(COMMENT)
        if comment:
            comment = COMMENT_END not in line
            continue
        if fence:
            put("    " * len(items) + line[min(indent, margin):] if line.strip() else "")
            if opens and opens.group(2).startswith(fence) and not (opens.group(3) + opens.group(4)).strip():
                fence = None
                out += [""] if following.strip() else []
            continue
        if not line.strip():
            paragraph = False
            out.append("")
            continue
        depth = len(items)
        while items and indent < items[-1] and (not paragraph or item or opens or heading):
            items.pop()
        base, inner = items[-1] if items else 0, "    " * len(items)
        sibling = len(items) < depth
        # In a paragraph, a number begins a list only if it is 1, or goes on with a list.
        if item and paragraph and not sibling and item.group(2) not in ("-", "*", "+", "1.", "1)"):
            item = None
        if indent - base >= 4 and not paragraph:  # indented code
            put(inner + line[base:])
        elif opens:
            fence, margin, paragraph = opens.group(2), indent, False
            put(inner + opens.group(2) + opens.group(3), apart=True)
        elif item and indent - base < 4:
            put(f"{inner}{item.group(2).replace(')', '.')} {unescaped(line[item.end():])}", apart=paragraph and not items and not sibling)
            items.append(item.end())
            paragraph = True
        else:
            table = "|" in line and DELIMITERS.match(following)
            put(inner + unescaped(line[base:] if indent >= base else line.lstrip(" ")), apart=bool(table or heading))
            paragraph = not heading
    return "\n".join(out)


def unescaped(line):
    """A line without backslashes that Python's Markdown would show: before the bars of code in a table, and before some marks outside of code."""
    parts = re.split(r"(`+[^`]+`+)", line)  # code is every second
    row = line.lstrip().startswith("|")
    return "".join((p.replace(r"\|", "|") if row else p) if i % 2 else re.sub(r"\\([\"$%&',/:;<=?@^~])", r"\1", p.replace(r"\<", "&lt;"))
                   for i, p in enumerate(parts))


def first_sentence(markdown):
    """The first sentence below a page's title; if a page begins with something else, the titles of its sections."""
    title, *parts = re.split(r"\n\s*\n", re.sub(r"(?m)^(#.*)\n(?!\n)", r"\1\n\n", markdown).strip())
    for part in parts:
        if part.startswith("#"):
            break
        if prose(part).strip() and not re.match(r" |[|>!<+-]|\* |\d+[.)] ", part):
            sentence = re.split(r"(?<=[.!?])\s+(?=[A-Z`*\[])", " ".join(part.split()))[0]
            return plain(sentence).rstrip(":")
    return ", ".join(heading for _, level, heading in headings(markdown) if level == 2)


def title_of(page, title=None, top=TOP):
    with open(os.path.join(top, path_of(page)), encoding="utf-8") as f:
        found = headings(f.read())
    return title or (found[0][2] if found else page)


def llms_txt(name, summary, top=TOP):
    """Title, summary, and of each section its pages with a link and a line."""
    out, section = [f"# {name}\n\n> {' '.join(summary.split())}\n"], None
    for sections, title, page in navigation(top):
        if not is_there(page, top):
            continue
        if sections[:1] != section:
            section = sections[:1]
            out.append(f"\n## {section[0]}\n\n" if section else "\n")
        with open(os.path.join(top, path_of(page)), encoding="utf-8") as f:
            said = first_sentence(f.read())
        words = [*sections[1:], title_of(page, title, top)]
        out.append(f"- [{' / '.join(words)}]({page}){': ' + said if said else ''}\n")
    return "".join(out)


# The hook of mkdocs.

def on_config(config, **_):
    config["mdx_configs"].setdefault("toc", {})["slugify"] = anchor

    def entry(e):
        if isinstance(e, str):
            return [p for p in expanded(e) if is_there(p)]
        (title, what), = e.items()
        if isinstance(what, str):
            return [{title: what}] if is_there(what) else []
        inside = [i for part in what for i in entry(part)]
        return [{title: inside}] if inside else []

    config["nav"] = [i for part in config["nav"] for i in entry(part)]
    return config


def on_files(files, config, **_):
    from mkdocs.structure.files import File
    for page in AT_TOP:
        if is_there(page):
            files.append(File(page, TOP, config["site_dir"], config["use_directory_urls"]))
    files.append(File("favicon.svg", os.path.join(TOP, "web/ui"), config["site_dir"], config["use_directory_urls"]))
    return files


def on_page_markdown(markdown, page, config, **_):
    linked = relinked(markdown, page.file.src_uri, os.environ.get("PYRRHA_REPOSITORY", ""))
    beside = os.path.join(config["site_dir"], page.file.src_uri)
    os.makedirs(os.path.dirname(beside), exist_ok=True)
    with open(beside, "w", encoding="utf-8") as f:
        f.write(linked)
    # A picture that stands alone leads to itself: on a phone it is small.
    return re.sub(r"(?m)^!\[[^\]]*\]\(([^()\s:]+)\)$", r"[\g<0>](\1)", for_python(linked))


def on_post_page(output, **_):
    """The search's transformation has to be there before the theme's script."""
    output, found = re.subn(r'<script src="([^"]*)assets/javascripts/bundle', r'<script src="\1site.js"></script>\n      \g<0>', output)
    if not found:
        raise ValueError("the theme's script has another name: where is docs/site.js to be loaded?")
    return output


def on_post_build(config, **_):
    with open(os.path.join(config["site_dir"], "llms.txt"), "w", encoding="utf-8") as f:
        f.write(llms_txt(config["site_name"], config["site_description"]))


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0], epilog="Any static web server shows it: python3 -m http.server -d DIR")
    p.add_argument("dir", help="where the site is written; a site that is there is replaced")
    p.add_argument("--repository", metavar="URL", help="where links to files that are not in docs/ lead: URL/lib/base/buf.h", default="")
    p.add_argument("--draft", action="store_true", help="pages that are not there yet are left out, and warnings stop nothing")
    args = p.parse_args()
    if not shutil.which("mkdocs"):
        sys.exit("There is no mkdocs: apt-get install mkdocs mkdocs-material")
    missing = [path_of(page) for _, _, page in navigation() if not is_there(page)]
    if missing:
        print(f"mkdocs.yml: its navigation names {len(missing)} pages that are not there: {' '.join(missing)}", file=sys.stderr)
    site = os.path.abspath(args.dir)
    if os.path.isdir(site) and os.listdir(site) and not os.path.exists(os.path.join(site, "llms.txt")):
        sys.exit(f"{args.dir} is neither empty nor a site: it is left as it is")
    if missing and not args.draft:
        sys.exit("Nothing is built (--draft builds without them)")
    command = ["mkdocs", "build", "--quiet", "--site-dir", site, "--config-file", os.path.join(TOP, "mkdocs.yml")]
    os.environ["PYRRHA_REPOSITORY"] = args.repository
    sys.exit(subprocess.run(command + ([] if args.draft else ["--strict"])).returncode)


if __name__ == "__main__":
    main()
