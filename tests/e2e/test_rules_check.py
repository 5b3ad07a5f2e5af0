# SPDX-License-Identifier: Apache-2.0
"""pyrtool check rules with --url: thresholds of shares that what a server has is too little for."""
import base64

from harness import HttpServer, Server, answer, check, http_get, run, wait_until

STACKS = "stacks:samples:count:samples:count"
RULES = """groups:
- name: g
  rules:
  - record: near
    expr: share(merge by (job) (stacks)) > 0.25
  - alert: Near
    expr: |
      vector(1) and
        0.3 < self_share(merge by (job) (stacks), {function="f"})
  - {alert: Far, expr: 'share(merge by (job) (stacks), {function="f"}) > 0.9'}
  - {alert: Bound, expr: 'share_low(merge by (job) (stacks), {function="f"}, 3) > 0.25'}
  - {alert: Change, expr: 'share(diff(merge(stacks), merge(stacks offset 5m), "share")) > 0.1'}
  - {alert: None, expr: 'share(merge(stacks{job="other"})) > 0.1'}
""".replace("stacks", STACKS)


def check_rules(env, url, *flags):
    return run([env.program("pyrtool"), "check", "rules", "--lint-fatal", "--url", url, *flags, env.path("r.yml", RULES)], 60)


def folded_target(env):
    """100 samples each time it is asked: a quarter in f, the others in g."""
    return HttpServer(env, lambda h: answer(h, 200, b"main;f 25\nmain;g 75\n", [("Content-Type", "text/plain")])).address


def test_thresholds(env):
    off = " ".join(f"{t}: {{enabled: false}}," for t in ("memory", "goroutine", "process_cpu", "block", "mutex"))
    server = Server(env, f"global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n- job_name: a\n"
                    f"  profiling_config: {{pprof_config: {{{off} stacks: {{path: /, kind: gauge, folded: {{}}}}}}}}\n  static_configs: [{{targets: ['{folded_target(env)}']}}]\n")
    wait_until("there are samples", lambda: (server.value(f"samples(merge({STACKS}))") or 0) == 100)
    status, out = check_rules(env, server.url)
    check(status == 0, out)
    warnings = [line for line in out.splitlines() if "WARNING" in line]
    check(len(warnings) == 3, out)
    check('r.yml:5:11: {function="f", job="a"} has 0.25 now, of 100 samples: 0.25 is within three standard errors (0.13)' in warnings[0], out)
    check('r.yml:9:15: {job="a"} has 0.25 now, of 100 samples: 0.3 is within' in warnings[1], out)
    check('r.yml:13:26: the server has no samples of merge(' + STACKS + '{job="other"}) now' in warnings[2], out)


def test_login(env):
    """The file of --http.config.file, as promtool has it; a server that does not answer is a failure."""
    want = "Basic " + base64.b64encode(b"eve:apple").decode()
    server = Server(env, "global: {scrape_interval: 1s}\n")

    def forward(h):
        if h.headers["Authorization"] != want:
            return answer(h, 401, b"who is there?\n")
        body = h.rfile.read(int(h.headers["Content-Length"]))
        status, headers, got = http_get(server.url + h.path, data=body, headers={"Content-Type": h.headers["Content-Type"]})
        return answer(h, status, got, [("Content-Type", headers["Content-Type"])])
    door = HttpServer(env, forward).address
    status, out = check_rules(env, door)
    check(status == 1 and "401" in out, f"{status} {out}")
    login = "--http.config.file=" + env.path("http.yml", "basic_auth: {username: eve, password_file: pass}\n")
    env.path("pass", "apple\n")
    status, out = check_rules(env, door, login)
    check(status == 0 and "no samples of" in out, f"{status} {out}")
    status, out = run([env.program("pyrtool"), "query", "instant", login, door, "1 + 1"], 20)
    check(status == 0 and out.startswith("2 @"), out)
    status, out = run([env.program("pyrtool"), "rules", "try", login, "--url", door, env.path("r.yml", RULES)], 20)
    check(status == 0 and "0 alerts in" in out, out)
    status, out = run([env.program("pyrtool"), "query", "instant", "--http.config.file", env.path("bad.yml", "basic: 1\n"), door, "1"], 20)
    check(status == 1 and "bad.yml:1:1: " in out, out)
