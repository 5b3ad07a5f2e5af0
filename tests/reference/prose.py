# SPDX-License-Identifier: Apache-2.0
"""Names in the prose of docs against those in the code, both ways: a key of the configuration that no page mentions, and a flag, a metric,
a route or a function on a page that is nowhere in the code."""
import re

import pages
import tree

GENERATED = "docs/reference/"
PROGRAMS = {"pyrrha": "cmd/flags.c", "pyrrha-agent": "cmd/pyrrha_agent.c", "pyrtool": None}
# Pages about the tree itself, whose programs have flags of their own.
OF_THE_TREE = ("docs/ARCHITECTURE.md", "docs/benchmarks.md", "docs/development/", "docs/decisions/")
INLINE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.S)
FENCE = re.compile(r"^[ \t]*```.*?^[ \t]*```[ \t]*$", re.M | re.S)
INDENTED = re.compile(r"(?:^(?: {4}|\t).*\n)+", re.M)
FLAG = re.compile(r"(?<![\w-])--(?:no-)?([a-z][a-z0-9.-]*[a-z0-9])")
METRIC = re.compile(r"(?<![\w/-])(pyrrha_[a-z0-9_]+)([*{]?)(?![\w/.-])")
ROUTE = re.compile(r"(?<![\w.-])(/(?:api/v1|-|buildid)/[\w/{}*-]*[\w}*])")
CALL = re.compile(r"\b([a-z][a-z0-9_]*) ?\(")
COMMAND = re.compile(r"(?:^|[`(|;&])[ \t]*(?:\$ |sudo |exec )?(?:[\w./$-]*/)?(pyrrha-agent|pyrrha|pyrtool)(?![\w.:-])((?:[ \t]+[^\n|;&]*)?)", re.M)
# Flags of other programs that pages name without the program, and which program each is of: they are not taken for flags of ours.
FOREIGN = {"prefix": "configure", "changed": "check", "build": "tests/e2e/run", "db-password": "an example", "perf-basic-prof": "node",
           "perf-basic-prof-only-functions": "node", "interpreted-frames-native-stack": "node"}
# Words before a bracket in expressions that are no functions; f is any function.
WORDS = {"f", "and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "bool", "offset", "fill", "fill_left", "fill_right",
         "if", "for", "in"}


def own_flags(sources):
    """program -> its flags and their other names; pyrtool's are those of all commands."""
    found = {p: set() for p in PROGRAMS}
    for t in sources.tables("opt"):
        program = next((p for p, path in PROGRAMS.items() if path == t.path), "pyrtool")
        for row in t.rows:
            if row["type"] != "OPT_GROUP":
                found[program] |= {row["name"], *(row.get("alias") or "").split(",")} - {""}
    for flags in found.values():
        flags |= {"help", "version"}
    return found


def documents(top, names):
    return {n: tree.read(top, n) for n in names if n.endswith(".md") and n.startswith("docs/") and not n.startswith(GENERATED)} | \
           {"README.md": tree.read(top, "README.md")}


def line(text, at):
    return text.count("\n", 0, at) + 1


def commands(text):
    """(offset, program, arguments) of each command line in fences, indented blocks and inline code."""
    for block in [*FENCE.finditer(text), *INDENTED.finditer(text), *INLINE.finditer(text)]:
        code = re.sub(r"\\\n", "  ", block.group(0))
        for m in COMMAND.finditer(code):
            yield block.start() + m.start(), m.group(1), m.group(2)


def configure_flags(top):
    """Of ./configure: enable-x and disable-x."""
    features = re.findall(r"AC_ARG_ENABLE\(\[([\w-]+)\]", tree.read(top, "configure.ac"))
    return {f"{way}-{x}" for x in features for way in ("enable", "disable")}


def without_fences(text):
    """Line numbers stay."""
    return FENCE.sub(lambda f: "\n" * f.group(0).count("\n"), text)


def flag_problems(name, text, flags, others):
    known = set().union(*flags.values()) | others
    for at, program, given in commands(text):
        for flag in FLAG.findall(given):
            if flag not in flags[program]:
                yield f"{name}:{line(text, at)}: {program} has no flag --{flag}"
    if name.startswith(OF_THE_TREE):
        return
    for m in INLINE.finditer(without_fences(text)):
        begins = FLAG.match(m.group(2))
        is_prefix = begins and m.group(2)[begins.end() + 1:begins.end() + 2] in ("*", "…")
        if begins and begins.group(1) not in known and not (is_prefix and any(f.startswith(begins.group(1)) for f in known)):
            yield f"{name}:{line(text, m.start())}: no program has a flag --{begins.group(1)}"


def metric_problems(name, text, metrics):
    for m in METRIC.finditer(text):
        is_begin = m.group(1).endswith("_") or m.group(2) == "*"
        plain = re.sub(r"_(bucket|sum|count)$", "", m.group(1))
        if m.group(1) not in metrics and plain not in metrics and not (is_begin and any(k.startswith(m.group(1)) for k in metrics)):
            yield f"{name}:{line(text, m.start())}: no metric is called {m.group(1)}"


def route_pattern(path):
    return re.compile("".join(".*" if p == "{*}" else "[^/]+" if p.startswith("{") else re.escape(p) for p in re.split(r"(\{[^}]*\})", path)))


def route_problems(name, text, routes):
    below = [r for r in routes if "{*}" not in r]
    patterns = [route_pattern(r) for r in below]
    for m in ROUTE.finditer(text):
        path = re.sub(r"\{[^}]*,[^}]*\}", "x", m.group(1))
        if not any(p.fullmatch(path) for p in patterns) and not any(r.startswith(path + "/") for r in below):
            yield f"{name}:{line(text, m.start())}: there is no route {m.group(1)}"


def function_problems(name, text, functions):
    """Calls in inline code of a page about the language."""
    for m in INLINE.finditer(without_fences(text)):
        for call in CALL.findall(re.sub(r'"[^"]*"|\{[^}]*\}', "", m.group(2))):
            if call not in functions and call not in WORDS:
                yield f"{name}:{line(text, m.start())}: the language has no function {call}"


def key_problems(keys, texts):
    for title, _, found, on in keys.sections:
        prose = "\n".join(texts["docs/" + p] for p in on)
        for k in found:
            if k.works and k.name and not re.search(rf"`[^`\n]*(?<![\w-]){re.escape(k.last)}(?![\w-])[^`\n]*`|(?<![\w-]){re.escape(k.last)}:", prose):
                yield f"docs/{on[0]}: does not mention the key {k.name} ({title})"


def check(top, names, sources, keys):
    texts, flags, problems = documents(top, names), own_flags(sources), []
    metrics = {r["name"] for _, r in pages.metric_rows(sources)}
    routes = {r[0] for path in ("web/web.c", "agent/serve/serve.c") for r in pages.route_rows(sources, path)}
    others = set(FOREIGN) | configure_flags(top)
    functions = {r["name"] for t in ("func", "aggregate_info") for r in sources.tables(t)[0].rows}
    for name, text in sorted(texts.items()):
        problems += flag_problems(name, text, flags, others)
        problems += metric_problems(name, text, metrics)
        problems += route_problems(name, text, routes)
        if "profql" in name:
            problems += function_problems(name, text, functions)
    return sorted(set(problems)) + list(key_problems(keys, texts))
