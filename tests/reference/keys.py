# SPDX-License-Identifier: Apache-2.0
"""The page of all keys of configuration files. A section of it is a struct config_table; tables that a row points at are rows of the same
section, with a dotted key, unless they have a section of their own. A table that is reached from no section is an error."""
from ctables import Name
from pages import code, page, prose, table

TYPES = {"STRING": "text", "SECRET": "text, secret", "PATH": "file", "BOOL": "true or false", "INT": "number", "COUNT": "number", "FLOAT": "number",
         "DURATION": "duration", "SIZE": "size", "STRINGS": "list of texts", "MAP": "map of texts", "MULTIMAP": "map of texts or lists of texts",
         "STRUCT": "map", "POINTER": "map", "STRUCTS": "list of maps"}
TOP, SCRAPE, TYPE = "lib/config/config_top.c", "scraper/config/scrape_config.c", "scraper/config/scrape_types.c"
WEB, LOGINS, TESTS = "lib/httpd/web_config.c", "lib/httpd/web_logins.c", "cmd/rule_tests.c"
DISCOVERY, BUCKET = "lib/discovery/", "lib/bucket/bucket_config.c"
MAIN, AGENT = "`--config.file` of the server", "`--config.file` of the agent"
CLIENT_PAGES = ["configuration.md", "discovery.md", "web-configuration.md", "remote-write.md"]
# title, where it stands, file, table, pages that describe it
SECTIONS = [
    ("The file", f"The top of {MAIN}.", TOP, "top_table", ["configuration.md", "rules.md", "alertmanager.md", "remote-write.md", "scrape-objects.md"]),
    ("global", "The section `global`.", TOP, "global_table", ["configuration.md", "rules.md"]),
    ("scrape_configs", "An item of `scrape_configs`: a job.", SCRAPE, "job_table", ["configuration.md", "discovery.md"]),
    ("scrape_config_files", "The top of a file that `scrape_config_files` names.", SCRAPE, "table", ["configuration.md"]),
    ("profiling_config", "`profiling_config` of a job.", TYPE, "profiling_table", ["configuration.md"]),
    ("pprof_config", "A value of `pprof_config`, a map from names of profile types.", TYPE, "type_table", ["configuration.md", "profile-formats.md"]),
    ("relabel_configs", "An item of `relabel_configs`, `metric_relabel_configs`, `alert_relabel_configs` or `write_relabel_configs`.",
     "lib/config/config_relabel.c", "rule_table", ["configuration.md", "discovery.md", "agent.md"]),
    ("HTTP client", "Keys of whatever sends requests: jobs, discovery, Alertmanagers, other servers, receivers of remote-write.", "lib/config/config_http.c",
     "config_http_table", CLIENT_PAGES),
    ("static_configs", "An item of `static_configs`.", DISCOVERY + "sd_static.c", "table", ["configuration.md", "discovery.md"]),
    ("file_sd_configs", "An item of `file_sd_configs`.", DISCOVERY + "sd_file.c", "table", ["discovery.md"]),
    ("http_sd_configs", "An item of `http_sd_configs`.", DISCOVERY + "sd_http.c", "table", ["discovery.md"]),
    ("Target groups", "An item of a file of `file_sd_configs`, or of an answer of `http_sd_configs`.", DISCOVERY + "target_groups.c", "table", ["discovery.md"]),
    ("dns_sd_configs", "An item of `dns_sd_configs`.", DISCOVERY + "sd_dns.c", "table", ["discovery.md"]),
    ("docker_sd_configs", "An item of `docker_sd_configs`.", DISCOVERY + "sd_docker.c", "table", ["discovery.md"]),
    ("consul_sd_configs", "An item of `consul_sd_configs`.", DISCOVERY + "sd_consul_config.c", "consul_config_table", ["discovery.md"]),
    ("kubernetes_sd_configs", "An item of `kubernetes_sd_configs`.", DISCOVERY + "sd_kubernetes_config.c", "table", ["discovery-kubernetes.md"]),
    ("kubernetes_scrape_configs", "An item of `kubernetes_scrape_configs`.", DISCOVERY + "sd_kubernetes_source.c", "table", ["scrape-objects.md"]),
    ("Scrape objects", "`spec` of an object of a cluster that is a job.", "scraper/config/object_config.c", "spec_table", ["scrape-objects.md"]),
    ("storage", "The section `storage`.", "cmd/storage_config.c", "section_table", ["configuration.md"]),
    ("object_storage", "The section `object_storage`.", BUCKET, "object_storage_table", ["configuration.md"]),
    ("config of S3", "`object_storage.bucket.config` of type `S3`.", BUCKET, "s3_table", ["configuration.md"]),
    ("config of FILESYSTEM", "`object_storage.bucket.config` of type `FILESYSTEM`.", BUCKET, "fs_table", ["configuration.md"]),
    ("web", "The section `web`.", "web/source_links.c", "web_table", ["configuration.md"]),
    ("alerting", "The section `alerting`.", "rules/notifier/notifier_config.c", "alerting_table", ["alertmanager.md"]),
    ("alertmanagers", "An item of `alertmanagers`.", "rules/notifier/notifier_config.c", "set_table", ["alertmanager.md", "discovery.md"]),
    ("query", "The section `query`.", "lib/fleet/fleet_config.c", "query_table", ["configuration.md"]),
    ("servers", "An item of `query.servers`.", "lib/fleet/fleet_config.c", "server_table", ["configuration.md", "discovery.md"]),
    ("remote_write", "An item of `remote_write`.", "lib/remote/write_config.c", "receiver_table", ["remote-write.md"]),
    ("Rule files", "A file that `rule_files` names.", "rules/rule_file.c", None, ["rules.md"]),
    ("Unit tests of rules", "A file of `pyrtool test rules`.", TESTS, "file_table", ["rules.md"]),
    ("Web configuration", "The top of `--web.config.file`, of server and agent.", WEB, "sections_table", ["web-configuration.md"]),
    ("tls_server_config", "The section `tls_server_config`.", WEB, "tls_table", ["web-configuration.md"]),
    ("http_server_config", "The section `http_server_config`.", WEB, "http_table", ["web-configuration.md"]),
    ("rate_limit", "The section `rate_limit`.", WEB, "rate_table", ["web-configuration.md"]),
    ("tokens", "An item of `tokens`.", LOGINS, "token_table", ["web-configuration.md"]),
    ("The agent", f"{AGENT}.", "agent/labels/agent_config.c", "table", ["agent.md"]),
]
# What a function that decodes a value takes.
CUSTOM = {
    "config_relabel_decode": "list of [rules](#relabel_configs)", "get_external_labels": "map of labels", "decode_delta": "true or false",
    "decode_fallback": "`PrometheusText0.0.4`, as any other is refused", "decode_folded": "map",
    "decode_kinds": "`delta`, `cumulative` or `gauge`, or a map from sample types to these", "section_decode_directory": "directory",
    "decode_sets": "list of [Alertmanagers](#alertmanagers)", "decode_servers": "list of [servers](#servers)", "decode_message": "`prometheus.WriteRequest`", "get_interval": "duration",
    "decode_float": "number", "decode_time": "time", "decode_duration": "duration", "decode_headers": "map from names of headers to maps",
}
BELOW = {"decode_folded": "folded_table", "decode_headers": "header_table"}  # tables that such a function decodes by
# What the module itself makes of a node.
NODES = {
    (TOP, "global"): "map: [global](#global)", (TOP, "scrape_configs"): "list of [jobs](#scrape_configs)", (TOP, "scrape_config_files"): "list of [files](#scrape_config_files)",
    (TOP, "kubernetes_scrape_configs"): "list of [clusters](#kubernetes_scrape_configs)", (TOP, "rule_files"): "list of [rule files](#rule-files)",
    (TOP, "alerting"): "map: [alerting](#alerting)", (TOP, "query"): "map: [query](#query)", (TOP, "remote_write"): "list of [receivers](#remote_write)", (TOP, "storage"): "map: [storage](#storage)",
    (TOP, "aliases"): "map from aliases to profile types", (TOP, "replica_labels"): "list of names of labels", (TOP, "web"): "map: [web](#web)",
    (TOP, "object_storage"): "map: [object_storage](#object_storage)", (BUCKET, "config"): "map: [config of S3](#config-of-s3) or [of FILESYSTEM](#config-of-filesystem)",
    (SCRAPE, "profiling_config"): "map: [profiling_config](#profiling_config)", (SCRAPE, "scrape_configs"): "list of [jobs](#scrape_configs)",
    (TYPE, "pprof_config"): "map from names to [profile types](#pprof_config)", ("cmd/storage_config.c", "selector"): "selector",
    ("scraper/config/object_config.c", "selector"): "map", ("scraper/config/object_config.c", "scrapeConfig"): "map",
    (WEB, "tls_server_config"): "map: [tls_server_config](#tls_server_config)", (WEB, "http_server_config"): "map: [http_server_config](#http_server_config)",
    (WEB, "rate_limit"): "map: [rate_limit](#rate_limit)", (WEB, "basic_auth_users"): "map from names to bcrypt hashes",
    (WEB, "user_rights"): "map from names to lists of `read`, `write`, `admin`", (WEB, "tokens"): "list of [tokens](#tokens)",
    (LOGINS, "rights"): "list of `read`, `write`, `admin`",
}
NODE_TABLES = {("scraper/config/object_config.c", "selector"): (DISCOVERY + "sd_object_pods.c", "kube_label_selector_table")}
# Tables that no file is decoded by.
INTERNAL = {("lib/config/config_http.c", "named_header_table"): "header_table and the name, to compare two configurations",
            (DISCOVERY + "sd_object_pods.c", "table"): "what object_config.c makes of an object",
            ("scraper/config/object_config.c", "own_table"): "keys of scrapeConfig: struct member lists them all"}
SHAPES = {"LIST_OF": ("list of maps", "[]."), "MAP_OF": ("map of maps", ".NAME."), "STRUCT": ("map", ".")}  # of struct member
RULE_TYPES = {"name": "text", "interval": "duration", "query_offset": "duration", "limit": "number", "labels": "map of labels", "rules": "list of rules",
              "record": "text", "alert": "text", "expr": "text", "for": "duration", "keep_firing_for": "duration", "annotations": "map of templates",
              "profiles": "true or false"}


class Key:
    """A row: its name in the section (dotted), its last part, its type, its default, a remark, and whether it does something."""

    def __init__(self, name, kind, default="", remark="", works=True):
        self.name, self.kind, self.default, self.remark, self.works = name, kind, default, remark, works

    @property
    def last(self):
        return self.name.rsplit(".", 1)[-1].removesuffix("[]")


class Keys:
    def __init__(self, sources):
        self.sources = sources
        self.tables = {(t.path, t.name): t.rows[0] for t in sources.tables("config_table")}
        self.rows = {(t.path, t.name): t.rows for t in sources.tables("config_field")}
        self.kinds = {r.rows[0]["key"]: r.path for r in sources.tables("discovery_ops") if r.name != "sd_object_pods"}
        self.sectioned = {(path, name): title for title, _, path, name, _ in SECTIONS}
        self.reached, self.reached_rows = set(), set()
        self.sections = [(title, where, self.of_section(title, path, name), pages) for title, where, path, name, pages in SECTIONS]
        self.inherit()
        self.check()

    def inherit(self):
        """A job's 0 is what `global` says."""
        by_title = {title: found for title, _, found, _ in self.sections}
        names = {k.name for k in by_title["global"]}
        for k in by_title["scrape_configs"]:
            if k.name in names and k.default == "0":
                k.default, k.remark = "", "not given: that of `global`"

    def of_section(self, title, path, name):
        if title == "Rule files":
            return self.of_rules(path)
        found = self.of_table(path, name, "")
        if title == "Scrape objects":
            found += self.of_members(path, "scrape_members", "scrapeConfig.")
        if self.tables[path, name].get("other_key"):
            found += [Key(k, f"list of [items](#{k})") for k in self.kinds]
        return found

    def of_rules(self, path):
        group = self.sources.array(path, "keys", flat=True, nth=1)
        rule = [r[0] for r in self.sources.array(path, "keys")]
        return ([Key("groups", "list of maps")] + [Key("groups[]." + k, RULE_TYPES[k]) for k in group] +
                [Key("groups[].rules[]." + k, RULE_TYPES[k]) for k in rule])

    def of_members(self, path, name, before):
        found = []
        for cells in self.sources.array(path, name):
            if cells[0] is None:
                continue
            own = next((r for r in self.rows[path, "own_rows"] if r["key"] == cells[0]), None)
            shape, after = SHAPES.get(cells[2] if len(cells) > 2 else None, (None, None))
            found.append(Key(before + cells[0], shape or (TYPES[own["type"].removeprefix("CONFIG_")] if own else f"as `{cells[1]}`")))
            if shape:
                found += self.of_members(path, cells[3], before + cells[0] + after)
        return found

    def named(self, path, name):
        """The key of a table that a row of a file names: one of that file, or of any other."""
        name = str(name).lstrip("& ")
        return (path, name) if (path, name) in self.tables else next(k for k in self.tables if k[1] == name)

    def of_table(self, path, name, before):
        self.reached.add((path, name))
        fields = (path, str(self.tables[path, name]["fields"]))
        self.reached_rows.add(fields)
        return [k for row in self.rows[fields] for k in self.of_row(path, row, before)]

    def of_row(self, path, row, before):
        kind, key = row["type"].removeprefix("CONFIG_"), row.get("key")
        below = self.named(path, row["table"]) if row.get("table") else None
        if kind == "INLINE":
            title = self.sectioned.get(below)
            return [Key("", f"all keys of [{title}](#{title.lower().replace(' ', '-')})")] if title else self.of_table(*below, before)
        name = before + key
        if kind in ("IGNORED", "REFUSED"):
            return [Key(name, kind.lower(), remark=row["words"].removeprefix("ignored; "), works=False)]
        remark = "required" if "CONFIG_REQUIRED" in (row.get("flags") or "") else ""
        default = row.get("def") if isinstance(row.get("def"), str) and not isinstance(row.get("def"), Name) else ""
        custom = str(row.get("custom") or "")
        if kind == "ENUM":
            text = ", ".join(code(w) for w in row["words"].split("|") if w)
        elif kind == "CUSTOM":
            text = CUSTOM.get(custom)
        elif kind == "NODE":
            text = NODES.get((path, key))
        else:
            text = TYPES[kind]
        if not text:
            raise LookupError(f"{path}: the key {key}: tests/reference/keys.py does not say what it takes")
        below = self.named(path, BELOW[custom]) if custom in BELOW else below or NODE_TABLES.get((path, key))
        found = [Key(name, text, default, remark)]
        if below in self.sectioned:
            title = self.sectioned[below]
            found[0].kind += f": [{title}](#{title.lower().replace(' ', '-')})"
        elif below:
            found += self.of_table(*below, name + ("[]." if kind == "STRUCTS" else ".NAME." if custom == "decode_headers" else "."))
        return found

    def check(self):
        lost = [f"{path}: the table {name}" for path, name in self.tables if (path, name) not in self.reached and (path, name) not in INTERNAL]
        used = {(path, str(t["fields"])) for (path, _), t in self.tables.items()}
        lost += [f"{path}: the rows {name}" for (path, name), rows in self.rows.items() if (path, name) not in used and any(r.get("key") for r in rows)]
        lost += [f"{path}: the kind of discovery {kind}" for kind, path in self.kinds.items() if kind not in self.titles()]
        if lost:
            raise LookupError("in no section of tests/reference/keys.py: " + "; ".join(lost))

    def titles(self):
        return {s[0] for s in SECTIONS}


def configuration_keys(sources):
    keys = Keys(sources)
    parts = ["Every key of every file that the programs read. A key that is not here is an error, with file, line and column. Durations are written as "
             "`30s` or `1h30m`, sizes as `512MB` or `10GiB`: `GB` and `GiB` are both 2^30 bytes, as in Prometheus. A list is one of maps where its "
             "keys are named as `list[].key`. Keys of other systems that do nothing here are *ignored*, with a warning; *refused* ones are errors.\n"]
    for title, where, found, pages in keys.sections:
        described = ", ".join(f"[{p}](../{p})" for p in pages)
        rows = [[code(k.name) if k.name else "", k.kind, code(k.default) if k.default else "", prose(k.remark)] for k in found]
        parts += [f"## {title}\n", f"{where} Described in {described}.\n", table(("key", "value", "default", "remark"), rows)]
    refused = [k for k in sources.array(DISCOVERY + "discovery.c", "elsewhere", flat=True) if k not in keys.kinds]
    parts += ["## Kinds of discovery that are refused\n", "They are known from Prometheus and not built in: " + ", ".join(code(k) for k in refused) + ".\n"]
    return page("Configuration keys", *parts)
