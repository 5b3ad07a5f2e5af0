# SPDX-License-Identifier: Apache-2.0
"""Configuration that others write: variables of the environment, files that change under a running program, sockets."""
import os
import re
import shutil
import socket
import threading
import time

from harness import Echo, Server, check, http_get, run, wait_until
from test_agent import start_agent


def job(name, *addresses, more=""):
    return (f"- job_name: {name}\n  scrape_interval: 1s\n{more}"
            f"  profiling_config: {{pprof_config: {{memory: {{enabled: false}}, block: {{enabled: false}}, mutex: {{enabled: false}}, "
            f"process_cpu: {{enabled: false}}}}}}\n"
            f"  static_configs: [{{targets: [{', '.join(addresses)}]}}]\n")


def jobs(*texts):
    return "scrape_configs:\n" + "".join(texts)


def pools(server):
    return {t["scrapePool"] for t in server.targets()}


class Volume:
    """A folder as a kubelet fills it: files are links into ..data, a link that is swapped for one to a new folder."""

    def __init__(self, path, **files):
        self.path, self.n = path, 0
        os.makedirs(path)
        self.swap(**files)
        for name in files:
            self.link(name)

    def link(self, name):
        os.symlink(os.path.join("..data", self.file(name)), os.path.join(self.path, self.file(name)))

    @staticmethod
    def file(name):
        return name.replace("_", "-") + ".yml"

    def swap(self, **files):
        old, self.n = os.path.join(self.path, f"..v{self.n}"), self.n + 1
        os.mkdir(os.path.join(self.path, f"..v{self.n}"))
        for name, text in files.items():
            with open(os.path.join(self.path, f"..v{self.n}", self.file(name)), "w", encoding="utf-8") as f:
                f.write(text)
        os.symlink(f"..v{self.n}", os.path.join(self.path, "..data_tmp"))
        os.rename(os.path.join(self.path, "..data_tmp"), os.path.join(self.path, "..data"))
        shutil.rmtree(old, ignore_errors=True)


class Reloading(Server):
    """Its configuration is a file of someone else's."""

    def __init__(self, env, path, flags=()):
        self.path = path
        super().__init__(env, "", ["--config.auto-reload", *flags])

    def start_on(self, name, port):
        self.config = self.path
        super().start_on(name, port)


def within(seconds, what, probe):
    begin = time.monotonic()
    wait_until(what, probe, seconds)
    return time.monotonic() - begin


def test_a_swap_as_a_kubelet_does_it(env):
    """Twice: a watch on the file itself ends with the first. The interval of half a minute is of no help. A job that did not
    change keeps what it knows; a bad configuration is refused once, however often it is looked at."""
    echo = Echo(env)
    kept = job("kept", echo.address)
    volume = Volume(env.path("volume"), pyrrha=jobs(kept, job("a", echo.address)))
    server = Reloading(env, volume.path + "/pyrrha.yml")
    wait_until("the kept job's target is up", lambda: server.value('up{job="kept"}') == 1)

    def kept_target():
        return [t for t in server.targets() if t["scrapePool"] == "kept"][0]

    for name in ("b", "c"):
        before = kept_target()["lastScrape"]
        volume.swap(pyrrha=jobs(kept, job(name, echo.address)))

        def reloaded():
            check(kept_target()["health"] == "up" and kept_target()["lastScrape"] >= before, f"it began anew: {kept_target()}")
            return pools(server) == {"kept", name}
        within(5, f"job {name} after a swap", reloaded)
    volume.swap(pyrrha="scrape_configs: [{job_name: x, oops: 1}]\n")
    within(5, "the bad one is refused", lambda: server.metrics()["pyrrha_config_last_reload_successful"] == 0)
    volume.swap(pyrrha="scrape_configs: [{job_name: x, oops: 1}]\n")  # the same content once more
    time.sleep(2)
    check(server.metrics()["pyrrha_config_reload_failures_total"] == 1, "it is counted once")
    check(server.text().count("unknown") == 1 and server.text().count("the old one stays") == 1, server.text())
    check(pools(server) == {"kept", "c"}, "the old one stays")
    volume.swap(pyrrha=jobs(kept, job("d", echo.address)))
    within(5, "a good one after the bad one", lambda: pools(server) == {"kept", "d"})
    check(server.metrics()["pyrrha_config_last_reload_successful"] == 1, "the metric says that it is good again")
    status, _ = server.terminate(6)
    check(status == 0, f"exit status {status}")


def test_files_beside_it(env):
    """scrape_config_files: one that changes, one that is new, one that goes. A file written in pieces is read when it is whole."""
    echo = Echo(env)
    os.mkdir(env.path("jobs"))
    main = env.path("main.yml", "scrape_config_files: ['jobs/*.yml']\n")
    one = env.path("jobs/one.yml", jobs(job("one", echo.address)))
    server = Reloading(env, main)
    check(pools(server) == {"one"} or wait_until("job one", lambda: pools(server) == {"one"}), "")
    env.path("jobs/two.yml", jobs(job("two", echo.address)))
    within(5, "a new file that the pattern matches", lambda: pools(server) == {"one", "two"})
    with open(one, "w", encoding="utf-8") as f:
        for part in ("scrape_configs:\n- job_name: on", "e\n- {job_name: more, static_configs: [{targets: ['", echo.address, "']}]}\n"):
            f.write(part)
            f.flush()
            time.sleep(0.1)
    within(5, "a file that changes", lambda: pools(server) == {"more", "two"})
    os.unlink(env.path("jobs/two.yml"))
    within(5, "a file that goes", lambda: pools(server) == {"more"})
    check(server.metrics()["pyrrha_config_reload_failures_total"] == 0, server.text())
    # A folder whose files change all the time, though not these: the program has nothing to do.
    ticks = lambda: sum(int(x) for x in open(f"/proc/{server.p.pid}/stat", encoding="ascii").read().rsplit(")", 1)[1].split()[11:13])
    time.sleep(1)
    before, end = ticks(), time.monotonic() + 3
    while time.monotonic() < end:
        env.path("noise", "x")
        time.sleep(0.002)
    check(ticks() - before < 100, f"{ticks() - before} ticks of CPU in 3 s")


def test_without_the_flag_nothing_is_reloaded(env):
    echo = Echo(env)
    server = Server(env, jobs(job("one", echo.address)))
    wait_until("job one", lambda: pools(server) == {"one"})
    server.configure(jobs(job("two", echo.address)))
    time.sleep(1.5)
    check(pools(server) == {"one"}, "it was reloaded")
    status, out = run([env.program("pyrrha"), "--config.file=" + server.config, "--config.auto-reload-interval=1ms"])
    check(status == 2 and "--config.auto-reload-interval" in out, f"{status}: {out}")


def test_variables_of_the_environment(env):
    """Values, also of files beside it; relabelling's groups stay; what is not set has a place; secrets stay hidden."""
    echo = Echo(env)
    os.environ.update(PT_TARGET=echo.address, PT_JOB="named", PT_PASSWORD="hunter2", PT_ZONE="eu")
    more = ("  basic_auth: {username: me, password: '${PT_PASSWORD}'}\n"
            "  relabel_configs:\n"
            "  - {source_labels: [__address__], regex: '(.*):(.*)', target_label: port, replacement: '${2}-${PT_ZONE}-$${PT_ZONE}x$1'}\n")
    env.path("more.yml", jobs(job("'more-${PT_ZONE}'", "'${PT_TARGET}'")))
    text = ("global: {external_labels: {zone: 'a${PT_ZONE}', none: 'x${PT_UNSET}'}}\nscrape_config_files: ['${PT_FILE}.yml']\n" +
            jobs(job("'${PT_JOB}'", "'${PT_TARGET}'", more=more)))
    os.environ["PT_FILE"] = "more"
    server = Server(env, text, ["--config.expand-env", "--web.enable-lifecycle"])
    wait_until("two jobs", lambda: pools(server) == {"named", "more-eu"})
    host, port = echo.address.split(":")
    labels = [t["labels"] for t in server.targets() if t["scrapePool"] == "named"][0]
    check(labels["port"] == f"{port}-eu-x{host}", f"{labels}: there is no group PT_ZONE, so it is empty")
    shown = server.api("status/config")["yaml"]
    check("hunter2" not in shown and "<secret>" in shown, shown)
    server.configure(text.replace("'${PT_JOB}'", "'${PT_UNSET}'"))
    status, _, body = http_get(server.url + "/-/reload", data=b"")
    check(status >= 400 and f"{server.config}:4:13: the environment variable PT_UNSET is not set".encode() in body, f"{status} {body}")
    check("hunter2" not in server.text() and b"hunter2" not in body, "the secret is in the log")
    env.path("checked.yml", jobs(job("x", "'${PT_UNSET}'")))
    for words in (["pyrrha", "--config.check", "--config.file=" + env.path("checked.yml")],
                  ["pyrtool", "check", "config", env.path("checked.yml")]):
        status, out = run([env.program(words[0]), *words[1:]])
        check(status == 0 or "not host:port" in out, f"without the flag it is text: {status}: {out}")
        status, out = run([env.program(words[0]), *words[1:], "--config.expand-env"])
        check(status == 1 and "checked.yml:5:" in out and "PT_UNSET" in out, f"{status}: {out}")


def agent_metric(agent, name):
    found = re.search(rf"^{name} (\S+)$", http_get(agent + "/metrics")[2].decode(), re.M)
    return float(found[1])


def test_the_agent_reloads(env):
    """The same for the agent's file, with variables."""
    rules = "relabel_configs: [{source_labels: [comm], regex: '${AT_DROPPED}', action: drop}]\n"
    os.environ["AT_DROPPED"] = "some_program"
    volume = Volume(env.path("volume"), agent=rules)
    agent = start_agent(env, f"--config.file={volume.path}/agent.yml", "--config.expand-env", "--config.auto-reload", "--no-kubernetes", only=["none"])
    check(agent_metric(agent, "pyrrha_agent_config_last_reload_successful") == 1, "it starts with a good one")
    volume.swap(agent=rules + "oops: 1\n")
    within(5, "the bad one is refused", lambda: agent_metric(agent, "pyrrha_agent_config_last_reload_successful") == 0)
    volume.swap(agent=rules.replace("AT_DROPPED", "AT_UNSET"))
    within(5, "a variable that is not set", lambda: "AT_UNSET is not set" in env.agent.text())
    check(agent_metric(agent, "pyrrha_agent_config_reload_failures_total") == 2, "each is counted once")
    volume.swap(agent=rules.replace("drop}", "keep}"))
    within(5, "a good one", lambda: agent_metric(agent, "pyrrha_agent_config_last_reload_successful") == 1)


def test_a_target_behind_a_socket(env):
    """__unix_socket__ is dialled, here with an address that nobody listens on, and with none; each socket by itself."""
    echo = Echo(env)
    host, port = echo.address.split(":")
    paths = [env.path("a.sock"), env.path("b.sock")]
    for path in paths:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        env.at_end(listener.close)
        threading.Thread(target=forward, args=(listener, (host, int(port))), daemon=True).start()
    job_of = lambda name, address, path: job(name, f"'{address}'").replace("]}]", f"], labels: {{__unix_socket__: {path}}}}}]")
    server = Server(env, jobs(job_of("a", "nobody.invalid:1", paths[0]), job_of("b", "", paths[1]), job_of("c", "x:1", env.path("none.sock"))))
    for name, instance in (("a", "nobody.invalid:1"), ("b", "localhost")):
        wait_until(f"job {name}", lambda: server.value(f'up{{job="{name}",instance="{instance}"}}') == 1)
    wait_until("job c is down", lambda: server.value('up{job="c"}') == 0)


def forward(listener, address):
    """Connections of the socket to the address."""
    def copy(source, to):
        try:
            while data := source.recv(65536):
                to.sendall(data)
        except OSError:
            pass
        finally:
            for s in (source, to):
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
    while True:
        try:
            client = listener.accept()[0]
        except OSError:
            return
        server = socket.create_connection(address)
        for pair in ((client, server), (server, client)):
            threading.Thread(target=copy, args=pair, daemon=True).start()
