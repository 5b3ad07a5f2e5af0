# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/reference: each is a function of the sources that returns the page as Markdown. keys.py makes the one of the configuration."""
import fractions
import re

from ctables import Name, number

HEAD = "<!-- Made by tests/reference/make from the tables in the code: change these, not the page. -->\n"
UNITS = (("y", 31536000000, True), ("w", 604800000, True), ("d", 86400000, False), ("h", 3600000, False), ("m", 60000, False), ("s", 1000, False), ("ms", 1, False))
SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
ARGUMENTS = {"s": "scalar", "S": "string", "v": "vector", "m": "range", "f": "frames", "r": "frames or granularity", "g": "granularity",
             "w": "labels or string", "l": "label matchers"}
TYPES = {"METRIC_COUNTER": "counter", "METRIC_GAUGE": "gauge", "METRIC_HISTOGRAM": "histogram"}


def code(text):
    """Inline code; a bar would end the cell of a table."""
    ticks = "``" if "`" in text else "`"
    pad = " " if ticks == "``" else ""
    return f"{ticks}{pad}{text}{pad}{ticks}".replace("|", "\\|")


def prose(text):
    """A help text as Markdown: what looks like a tag or a table is none, flags and names with underscores are code."""
    parts = re.split(r"(`[^`]*`|(?<![\w-])--[a-z][\w.-]*\w|[$%]*\{\w+\}|(?<![\w)./:])/[\w-][\w/.{},-]*[\w}/]|\b\w+_\w+(?:\{[^}]*\})?|https?://\S*[\w/])", text)
    return "".join(escape(p) if k % 2 == 0 else p.replace("|", "\\|") if p.startswith("`") else code(p) for k, p in enumerate(parts))


def escape(text):
    return re.sub(r"([|*_\[\]<>~])", r"\\\1", text)


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]).replace("|  |", "| |").replace("|  |", "| |") + "\n"


def page(title, *parts):
    return f"# {title}\n\n{HEAD}\n" + "\n".join(part if part.endswith("\n") else part + "\n" for part in parts)


# ---- flags ----

def duration(ms):
    text, left = "", ms
    for name, size, exact_only in UNITS:
        if left >= size and not (exact_only and left % size):
            text, left = text + f"{left // size}{name}", left % size
    return text or "0s"


def size(n):
    unit = 0
    while n >= 1024 and unit + 1 < len(SIZES):
        n, unit = n / 1024, unit + 1
    return f"{n:.1f}{SIZES[unit]}" if unit and n < 10 else f"{n:.0f}{SIZES[unit]}"


def spelt(kind, value):
    """A default as --help prints it; "" if there is none that every machine has."""
    if value is None or kind == "OPT_LIST":
        return ""
    if not isinstance(value, Name):
        return value
    if kind == "OPT_BOOL":
        return "true" if value == "true" else ""
    try:
        n = number(value)
    except ValueError:
        return ""
    return duration(n) if kind == "OPT_DURATION" else size(n) if kind == "OPT_SIZE" else str(n)


ZERO = {"OPT_BOOL": Name("false"), "OPT_INT": Name("0"), "OPT_DURATION": Name("0"), "OPT_SIZE": Name("0"), "OPT_FLOAT": Name("0")}


def member(row):
    return row["at"].split()[-1]


def server_defaults(sources):
    """Defaults by flag; a share of --memory where divide_memory() divides it."""
    initial = sources.initial("cmd/flags.c", "set")
    shares = {r[0]: fractions.Fraction(number(r[1]), 64) for r in sources.array("cmd/flags.c", "rows")}

    def default(row):
        if row["name"] in shares:
            return f"{shares[row['name']]} of `--memory`"
        if "Not given:" in row["help"]:
            return "see there"
        if row["name"] == "web.listen-address":
            return code(sources.array("cmd/flags.c", "standard", flat=True)[0])
        text = spelt(row["type"], initial.get(member(row), ZERO.get(row["type"])))
        return code(text) if text else ""
    return default


def agent_defaults(sources):
    """What set_defaults() assigns; o is what agent_options_init() makes."""
    options = sources.initial("agent/core/agent.c", "o")
    text = "\n".join(sources.lines("cmd/pyrrha_agent.c"))
    set_here = dict(re.findall(r"^\tflags\.(\w+) = (.*);$", text[text.index("set_defaults"):], re.M))

    def default(row):
        given = set_here.get(member(row))
        if given is None:
            return ""
        of_options = re.fullmatch(r"o\.(\w+)", given)
        interval = re.match(r"units_format_duration\(o\.(\w+) / 1000000,", given)
        if interval:
            text = duration(number(options[interval.group(1)]) // 1000000)
        elif given.startswith('"'):
            text = given.strip('"')
        else:
            text = spelt(row["type"], options[of_options.group(1)] if of_options else Name(given))
        return code(text) if text else ""
    return default


def tool_defaults(sources, path, tokens):
    """What the function that has the table gives its variables before it."""
    def default(row):
        names = [t for t in re.findall(r"\w+", row["at"])]
        found = ""
        for i in range(len(tokens) - 2):
            if tokens[i] == names[-1] and tokens[i + 1] == "=" and tokens[i - 1] != ".":
                found = tokens[i + 2]
            elif len(names) > 1 and tokens[i:i + 2] == [names[0], "="] and tokens[i + 2] == "{":
                found = tool_member(tokens[i + 2:], names[-1]) or found
        text = spelt(row["type"], found.strip('"') if found.startswith('"') else Name(found) if found else ZERO.get(row["type"]))
        return code(text) if text else ""
    return default


def tool_member(tokens, name):
    """The value of `.name =` in the initializer that tokens begin with."""
    depth = 0
    for i, t in enumerate(tokens):
        depth += (t == "{") - (t == "}")
        if not depth:
            return ""
        if t == "." and tokens[i + 1:i + 3] == [name, "="]:
            return tokens[i + 3]
    return ""


def flag_row(row, default):
    name = f"--{row['name']}" + ("" if row["type"] == "OPT_BOOL" else f"={row['arg'] or '<value>'}")
    text = prose(row["help"])
    if row.get("alias"):
        text += " Also accepted as " + ", ".join(code("--" + a) for a in row["alias"].split(",")) + "."
    return [code(name), default(row), text]


def flag_tables(rows, default, others=(), what=""):
    """The groups of a program. One that is called as a group of the other program has `what` after its title, so that each has an anchor of its own."""
    parts, group, title = [], [], "Flags"
    taken = {row["name"] for row in others if row["type"] == "OPT_GROUP"}
    for row in rows + [{"type": "OPT_GROUP", "name": ""}]:
        if row["type"] == "OPT_GROUP":
            parts += [f"### {title}\n", table(("flag", "default", "what it does"), group)] if group else []
            title, group = row["name"] + (what if row["name"] in taken else ""), []
        elif row["type"] not in ("OPT_EXPLAINED", "OPT_REFUSED"):
            group.append(flag_row(row, default))
    return parts


def foreign(rows, kind):
    return [[", ".join(code("--" + n) for n in [r["name"]] + (r.get("alias") or "").split(",") if n), prose(r["help"])] for r in rows if r["type"] == kind]


def command_table(sources, run):
    """The file and the rows of the flags of a command of pyrtool, and the tokens of its function before them."""
    for path in sorted(n for n in sources.names if n.startswith("cmd/tool") and n.endswith(".c")):
        tokens = sources.tokens(path)
        for i in range(len(tokens) - 5):
            if tokens[i] == run and tokens[i + 1] == "(" and tokens[i - 1] == "int":
                end = next(k for k in range(i, len(tokens)) if tokens[k:k + 4] == ["struct", "opt", "flags", "["])
                return path, tokens[i:end], next(t for t in sources.tables_of("opt", path, i))
    raise LookupError(run)


def flags(sources):
    server = next(t for t in sources.tables("opt") if t.path == "cmd/flags.c").rows
    agent = next(t for t in sources.tables("opt") if t.path == "cmd/pyrrha_agent.c").rows
    parts = ["All flags of the three programs, as `--help` lists them. A flag is given as `--name=value` or `--name value`; a switch, which has no "
             "value here, as `--name`, and `--no-name` turns it off.\n",
             "## pyrrha\n", *flag_tables(server, server_defaults(sources)),
             "### Flags of Parca\n", "They are accepted and do nothing; the log says what to use instead.\n",
             table(("flag", "instead"), foreign(server, "OPT_EXPLAINED")),
             "### Flags of Prometheus that are refused\n", table(("flag", "why"), foreign(server, "OPT_REFUSED")),
             "## pyrrha-agent\n", *flag_tables(agent, agent_defaults(sources), server, " (agent)"),
             "### Flags of parca-agent\n", "They are accepted and do nothing; the log says what to use instead.\n",
             table(("flag", "instead"), foreign(agent, "OPT_EXPLAINED")), "## pyrtool\n"]
    for command in sources.tables("tool_command")[0].rows:
        path, before, rows = command_table(sources, command["run"])
        parts += [f"### pyrtool {command['name']}\n", f"{code('pyrtool ' + command['name'] + ' [flags] ' + command['arguments'])}: {prose(command['summary'])}.\n"]
        own = [flag_row(r, tool_defaults(sources, path, before)) for r in rows.rows]
        parts += [table(("flag", "default", "what it does"), own)] if own else []
    return page("Flags", *parts)


# ---- metrics ----

def program_of(path):
    return "pyrrha-agent" if path.startswith("agent/") else "both" if path.startswith(("lib/httpd/", "lib/base/")) else "pyrrha"


def metric_rows(sources):
    """(program, row); the one that each program names by itself stands for both."""
    found = []
    for t in sources.tables("metric"):
        for row in t.rows:
            if row.get("name"):
                found.append((program_of(t.path), row))
            else:
                found += [(p, dict(row, name=n)) for p, n in (("pyrrha", "pyrrha_build_info"), ("pyrrha-agent", "pyrrha_agent_build_info"))]
    return sorted(found, key=lambda f: f[1]["name"])


def metrics(sources):
    parts = ["What `/metrics` of each program serves. A histogram has the series `_bucket`, `_sum` and `_count`. A metric with labels appears with its "
             "first value. Which of them to look at: [Watch the server itself](../howto/monitor.md).\n"]
    for program, title in (("pyrrha", "The server"), ("pyrrha-agent", "The agent"), ("both", "Server and agent")):
        rows = [[code(r["name"]), TYPES[r["type"]], ", ".join(code(n) for n in (r.get("labels") or "").split(",") if n), prose(r["help"])]
                for p, r in metric_rows(sources) if p == program]
        parts += [f"## {title}\n", table(("metric", "type", "labels", "what it is"), rows)]
    parts += ["## Series of each target\n",
              "The server stores these with each scrape, with the labels of the target. Those of a profile have the label `profile`.\n",
              table(("series", "what it is"), [[code(r[0]), prose(r[2])] for r in sources.array("web/api_types.c", "scrape_series")])]
    return page("Metrics", *parts)


# ---- routes ----

RIGHTS = {"HTTPD_RIGHT_NONE_NEEDED": "none", "HTTPD_RIGHT_READ": "read", "HTTPD_RIGHT_WRITE": "write", "HTTPD_RIGHT_READ_WRITE": "read and write",
          "HTTPD_RIGHT_ADMIN": "admin"}


def route_rows(sources, path):
    for row in next(t for t in sources.tables("httpd_route") if t.path == path).rows:
        methods = ["any"] if row["methods"] == "HTTPD_ANY" else [m.replace("HTTPD_", "").strip() for m in row["methods"].split("|")]
        if not row.get("text"):
            raise LookupError(f"{path}: the route {row['path']} has no text")
        yield row["path"], ", ".join(methods), RIGHTS[row["right"]], row["text"], "HTTPD_PAGE" in row.get("flags", "")


def routes(sources):
    server, agent = list(route_rows(sources, "web/web.c")), list(route_rows(sources, "agent/serve/serve.c"))
    head = ("path", "methods", "right", "what it does")

    def rows(those):
        return table(head, [[code(p), m, r, prose(t)] for p, m, r, t, _ in those])
    return page("Routes", "Every address that the programs answer. HEAD works where GET does. A path in braces is one segment; `{*}` is all that is "
                "below and has no route of its own. The right is what a login needs ([web configuration](../web-configuration.md)); parameters and "
                "answers are on the page of the [HTTP API](../http-api.md).\n",
                "## pyrrha: the API\n", rows(r for r in server if r[0].startswith("/api/")),
                "## pyrrha: everything else\n", rows(r for r in server if not r[0].startswith("/api/") and not r[4]),
                "## pyrrha: the page\n", rows(r for r in server if r[4]),
                "## pyrrha-agent\n", rows(agent))


# ---- the language ----

def arguments(letters):
    """ "v?S" -> "vector [, string]" """
    words, optional = [], False
    one = None
    i = 0
    while i < len(letters):
        c = letters[i]
        if c == "?":
            optional = True
        elif c == "*":
            words[-1] = (words[-1][0] + ", ...", words[-1][1])
        elif c == "-":
            i += 1
            words.append((ARGUMENTS[letters[i]], True))
        else:
            one = ARGUMENTS[c]
            words.append((one, optional))
        i += 1
    text = ""
    for k, (word, is_optional) in enumerate(words):
        comma = ", " if k else ""
        text += f" [{comma}{word}]" if is_optional and k else f"[{word}]" if is_optional else comma + word
    return escape(text)


def readouts(sources):
    return set(sources.array("promql-like/syntax/signatures.c", "names", flat=True))


def returns(row, out_of_stacks):
    """As func_returns() says; test pages against /api/v1/functions."""
    if row["form"] == "FUNC_FRAMES":
        return "frame matcher"
    if row["ret"] == "PROMQL_SCALAR":
        return "scalar"
    if row["form"] == "FUNC_PROFILE":
        return "values" if row["name"] in out_of_stacks or row["name"] == "coverage" else "profiles"
    keeps = row["form"] == "FUNC_CALL" and row["name"].startswith(("label_", "sort"))
    return "the same" if "FUNC_PROFILES" in row["flags"] or keeps else "values"


def functions(sources):
    rows = sources.tables("func")[0].rows
    examples = {r[0]: r[1] for r in sources.array("promql-like/syntax/examples.c", "table")}
    out_of_stacks = readouts(sources)
    here = [r for r in rows if r["form"] != "FUNC_REFUSED"]

    def function(r):
        text = prose(r["doc"])
        text += " Needs `--enable-feature=promql-experimental-functions`." if "FUNC_SWITCHED" in r["flags"] else ""
        return [code(r["signature"]), arguments(r["args"]), returns(r, out_of_stacks), text, code(examples[r["name"]])]

    def aggregation(r):
        given = "profiles" if r["name"] in ("merge", "split") else "the same" if r.get("profiles") == "true" else "values"
        parameter = {"'s'": "scalar, vector", "'S'": "string, vector"}.get(r["param"], "vector")
        return [code(r["signature"]), parameter, given, prose(r["doc"]), code(examples[r["name"]])]
    constructs = sources.tables("promql_construct")[0].rows
    head = ("signature", "arguments", "result", "what it does", "example")

    def construct(kind):
        return [[code(r["signature"]), r["returns"], prose(r["doc"]), code(r["example"])] for r in constructs if r["kind"] == kind]
    profiles = [r for r in here if r["form"] in ("FUNC_PROFILE", "FUNC_FRAMES")]
    return page("The language", "All of ProfQL, as the page *Language* of a server has it; what it means is on the page of [ProfQL](../profql.md). The "
                "examples answer on any server.\n",
                "## Types\n", table(("type", "what it is"), [[r["signature"], prose(r["doc"])] for r in constructs if r["kind"] == "PROMQL_TYPE"]),
                "## Selectors\n", table(("selector", "result", "what it is", "example"), construct("PROMQL_SELECTOR")),
                "## Operators\n", table(("operator", "result", "what it does", "example"), construct("PROMQL_OPERATOR")),
                "## Aggregations\n", table(head, [aggregation(r) for r in sources.tables("aggregate_info")[0].rows]),
                "## Functions of profiles\n", table(head, [function(r) for r in profiles]),
                "## Functions of Prometheus\n", "Those whose result is *the same* take profiles, too.\n",
                table(head, [function(r) for r in here if r not in profiles]),
                "## Functions that are refused\n",
                table(("function", "why"), [[code(r["name"]), prose(r["doc"])] for r in rows if r["form"] == "FUNC_REFUSED"]))


# ---- remedies ----

PLACES = {"%h": "HOST:PORT", "%n": "HOST", "%p": "PATH", "%t": "TIMEOUT", "%u": "URL"}
COMMAND = re.compile(r"(?:curl .*?URL(?: \| promtool check metrics)?|getent hosts HOST)")


def advice(text):
    text = re.sub("|".join(PLACES), lambda m: PLACES[m.group(0)], text)
    return prose(COMMAND.sub(lambda m: f"`{m.group(0)}`", text))


def timeouts(sources):
    """The remedies of timed_out(): (what the error also has, advice)."""
    text = "\n".join(sources.lines("web/remedies.c"))
    body = text[text.index("*timed_out("):]
    for condition, said in re.findall(r"(?:if \((.*)\)\n\t+)?return (\"(?:[^\"\\]|\\.)*\");", body[:body.index("\n}")]):
        words = re.search(r'VIEW\("(.*?)"\)', condition)
        yield ([words.group(1)] if words else ["`seconds` of the URL is not below `scrape_timeout`"] if condition else []), said.strip('"')


def remedies(sources):
    rows = [[code("timed out") + "".join(", " + (w if "`" in w else code(w)) for w in also), advice(said)] for also, said in timeouts(sources)]
    for words, said in sources.array("web/remedies.c", "table"):
        texts = [c for _, c in words if c]
        rows.append([", ".join(code(w) for w in texts) or "anything else", advice(said)])
    return page("Remedies", "What the page *Targets*, and `remedy` of `/api/v1/targets`, advise for a scrape that failed. The first row with a text that "
                "the error contains counts, in either case of letters. HOST, PATH and TIMEOUT stand for those of the target.\n",
                table(("the error has", "what to do"), rows))
