# SPDX-License-Identifier: Apache-2.0
"""Tables of the C sources as Python values: `static const struct x name[] = { { "a", 1 }, ... };`.

A file is split into tokens, macros are expanded as the preprocessor does it (both branches of an #if count), and each initializer of a
struct becomes a Table. A cell is a str (a text), a Name (an identifier or an expression), None (NULL), or a list of cells; a row is a dict
by the fields of the struct. Nothing is built, so that the pages can be made from a fresh clone."""
import functools
import os
import re

TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\w+|\.\.\.|->|<<|>>|[^\s\w]')
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
DEFINE = re.compile(r"#\s*define\s+(\w+)(\(([^)]*)\))?\s*(.*)$")
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
OPEN, CLOSE = "({[", ")}]"


class Name(str):
    """Code that is no text: an identifier, a number or an expression, its tokens joined by blanks."""


class Table:
    def __init__(self, struct, name, path, rows):
        self.struct, self.name, self.path, self.rows = struct, name, path, rows

    def __repr__(self):
        return f"{self.path}: struct {self.struct} {self.name}"


class Sources:
    """The C files of a tree; `include` is where #include "x" is looked for."""

    def __init__(self, top, names):
        self.top, self.include = top, ("", "lib/")
        self.names = {n for n in names if n.endswith((".c", ".h"))}

    @functools.lru_cache(None)
    def lines(self, path):
        """The file's lines without comments; one that ends in a backslash is joined with the next."""
        with open(os.path.join(self.top, path), encoding="utf-8") as f:
            text = f.read()
        text = COMMENT.sub(lambda m: m.group(0) if m.group(0)[0] in "\"'" else " ", text)
        return text.replace("\\\n", " ").split("\n")

    def find(self, included):
        return next((p + included for p in self.include if p + included in self.names), None)

    @functools.lru_cache(None)
    def macros(self, path):
        """What a header and the headers that it includes define."""
        found = {}
        for line in self.lines(path):
            directive = line.strip()
            if directive.startswith("#"):
                self.apply(directive, found)
        return found

    def apply(self, directive, macros):
        m = DEFINE.match(directive)
        if m:
            params = [p.strip() for p in m.group(3).split(",")] if m.group(2) and m.group(3).strip() else [] if m.group(2) else None
            macros[m.group(1)] = (params, TOKEN.findall(m.group(4)))
        m = re.match(r"#\s*undef\s+(\w+)", directive)
        if m:
            macros.pop(m.group(1), None)
        m = re.match(r'#\s*include\s+"([^"]+)"', directive)
        if m and self.find(m.group(1)):
            macros.update(self.macros(self.find(m.group(1))))

    @functools.lru_cache(None)
    def tokens(self, path):
        """All tokens of a file, macros expanded."""
        out = []
        self.walk(path, {}, out)
        return out

    def walk(self, path, macros, out):
        waiting, depth = [], 0  # tokens since the last directive
        for line in self.lines(path):
            directive = line.strip()
            if not directive.startswith("#"):
                found = TOKEN.findall(line)
                depth += sum((t in OPEN) - (t in CLOSE) for t in found if len(t) == 1)
                waiting += found
                continue
            out += expand(waiting, macros)
            waiting = []
            m = re.match(r'#\s*include\s+"([^"]+)"', directive)
            if m and depth and self.find(m.group(1)):  # a list of rows within a table
                self.walk(self.find(m.group(1)), macros, out)
            else:
                self.apply(directive, macros)
        out += expand(waiting, macros)

    @functools.lru_cache(None)
    def fields(self, struct):
        """The names of the members of a struct, in order."""
        for path in sorted(self.names, key=lambda n: (not n.endswith(".h"), n)):
            if not any(f"struct {struct} {{" in line for line in self.lines(path)):
                continue
            tokens = TOKEN.findall(re.sub(r"(?m)^\s*#.*$", "", "\n".join(self.lines(path))))
            for i in range(len(tokens) - 2):
                if tokens[i:i + 3] == ["struct", struct, "{"]:
                    return members(tokens[i + 3:closing(tokens, i + 2)])
        raise LookupError(f"struct {struct} is nowhere")

    def tables(self, struct):
        """Each initializer of a struct, or of an array of it, that is not a test's."""
        wanted = re.compile(rf"\bstruct\s+{struct}\b[^;(){{}}]*=")
        found = []
        for path in sorted(self.names):
            if path.endswith(".h") or path.endswith("_test.c") or path.startswith(("tests/", "bench/")):
                continue
            if any(wanted.search(line) for line in self.lines(path)):
                found += self.tables_of(struct, path)
        return found

    def tables_of(self, struct, path, begin=0):
        """Those of one file, from a token on."""
        found, tokens = [], self.tokens(path)
        for i in range(begin, len(tokens) - 4):
            if tokens[i] != "struct" or tokens[i + 1] != struct or not re.match(r"\w", tokens[i + 2]):
                continue
            at = i + 3
            is_array = tokens[at] == "["
            if is_array:
                at = closing(tokens, at) + 1
            if tokens[at:at + 2] != ["=", "{"]:
                continue
            value = initializer(tokens[at + 1:closing(tokens, at + 1) + 1])
            rows = [c for _, c in value] if is_array else [value]
            found.append(Table(struct, tokens[i + 2], path, [self.row(struct, r) for r in rows if isinstance(r, list)]))
        return found

    def row(self, struct, cells):
        """Cells by the names of their fields; one with a designator says itself which field it is."""
        names, row, next_field = self.fields(struct), {}, 0
        for designator, cell in cells:
            if designator:
                field = designator.split(".")[1]
                next_field = names.index(field) if field in names else next_field
            else:
                field = names[next_field]
            row[field] = cell
            next_field += 1
        return row

    def initial(self, path, name):
        """The cells of the only variable of that name in a file that is set by braces: field -> cell."""
        tokens = self.tokens(path)
        for i in range(1, len(tokens) - 2):
            if tokens[i] != name or tokens[i + 1] != "=":
                continue
            at = closing(tokens, i + 2) + 1 if tokens[i + 2:i + 4] == ["(", "struct"] else i + 2
            if tokens[at] == "{":
                return {d.split(".")[1]: c for d, c in initializer(tokens[at:closing(tokens, at) + 1]) if d and d.startswith(".")}
        raise LookupError(f"{path}: {name} is not initialized")

    def array(self, path, name, flat=False, nth=0):
        """The rows of an array, whatever it is of: lists of cells; flat: the cells. nth: others of that name come before it."""
        tokens = self.tokens(path)
        for i in range(1, len(tokens) - 2):
            at = closing(tokens, i + 1) + 1 if tokens[i] == name and tokens[i + 1] == "[" else 0
            if at and tokens[at:at + 2] == ["=", "{"]:
                nth -= 1
                if nth >= 0:
                    continue
                rows = [c for _, c in initializer(tokens[at + 1:closing(tokens, at + 1) + 1])]
                return rows if flat else [[c for _, c in r] for r in rows]
        raise LookupError(f"{path}: no array {name}")


def closing(tokens, at):
    """The index of the token that closes the one at `at`."""
    depth = 0
    for i in range(at, len(tokens)):
        if len(tokens[i]) == 1:
            depth += (tokens[i] in OPEN) - (tokens[i] in CLOSE)
        if not depth:
            return i
    raise ValueError("a bracket is not closed")


def split(tokens):
    """At the commas that are in no brackets."""
    parts, part, depth = [], [], 0
    for t in tokens:
        if len(t) == 1:
            depth += (t in OPEN) - (t in CLOSE)
        if t == "," and not depth:
            parts.append(part)
            part = []
        else:
            part.append(t)
    return parts + [part] if part else parts


def expand(tokens, macros, hidden=frozenset()):
    out, i = [], 0
    while i < len(tokens):
        t = tokens[i]
        params, body = macros.get(t, (None, None))
        if body is None or t in hidden or (params is not None and (i + 1 >= len(tokens) or tokens[i + 1] != "(")):
            out.append(t)
            i += 1
            continue
        end = i
        if params is not None:
            end = closing(tokens, i + 1)
            given = split(tokens[i + 2:end])
            if params and params[-1] == "...":
                given = given[:len(params) - 1] + [join(given[len(params) - 1:])]
            values = dict(zip([p if p != "..." else "__VA_ARGS__" for p in params], [expand(g, macros, hidden) for g in given]))
            body = [x for b in body for x in values.get(b, [b])]
        out += expand(body, macros, hidden | {t})
        i = end + 1
    return out


def join(parts):
    out = []
    for k, part in enumerate(parts):
        out += ([","] if k else []) + part
    return out


def members(tokens):
    """The names that the members of a struct declare."""
    names, part, depth = [], [], 0
    for t in tokens:
        depth += (t in OPEN) - (t in CLOSE) if len(t) == 1 else 0
        if t == ";" and not depth:
            for one in split(part):
                pointer = next((one[k + 2] for k in range(len(one) - 2) if one[k] == "(" and one[k + 1] == "*"), None)
                plain = [x for x in (one[:one.index("[")] if "[" in one else one) if re.match(r"[A-Za-z_]", x)]
                names += [pointer or plain[-1]] if pointer or plain else []
            part = []
        else:
            part.append(t)
    return names


def initializer(tokens):
    """`{ a, .b = c, [D] = { d } }` as a list of (designator or None, cell)."""
    cells = []
    for part in split(tokens[1:-1]):
        designator = None
        if part[0] in (".", "["):
            equals = part.index("=")
            designator, part = "".join(part[:equals]), part[equals + 1:]
        cells.append((designator, cell(part)))
    return cells


def cell(tokens):
    if tokens and tokens[0] == "{":
        return initializer(tokens)
    if tokens and all(t[0] == '"' for t in tokens):
        return "".join(unescape(t[1:-1]) for t in tokens)
    return None if tokens == ["NULL"] else Name(" ".join(tokens))


def unescape(text):
    return re.sub(r"\\(.)", lambda m: ESCAPES.get(m.group(1), m.group(1)), text)


def number(code):
    """The value of a constant expression."""
    text = re.sub(r"U?INT64_C \( (\w+) \)", r"\1", code.replace("( size_t )", ""))
    text = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", re.sub(r"(\d) \. (\d)", r"\1.\2", text))
    if not re.fullmatch(r"[\d\s.+*/()<>-]+", text):
        raise ValueError(f"not a number: {code}")
    return eval(text.replace("/", "//") if "." not in text else text, {"__builtins__": {}})  # digits and operators alone
