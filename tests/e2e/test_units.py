# SPDX-License-Identifier: Apache-2.0
"""The systemd units: systemd takes them as they are, and says how little the server's may do. Needs systemd-analyze, not a running systemd."""
import os
import re
import shutil

from harness import TOP, Skip, check, run


def unit(env, name, program):
    """The unit, of the built program."""
    if not shutil.which("systemd-analyze"):
        raise Skip("no systemd-analyze")
    with open(os.path.join(TOP, "deploy", name)) as f:
        text = f.read()
    return env.path(name, text.replace("=/usr/bin/" + program, "=" + env.program(program))), text


def test_systemd_takes_them(env):
    for name, program in (("pyrrha.service", "pyrrha"), ("pyrrha-agent.service", "pyrrha-agent")):
        path, _ = unit(env, name, program)
        code, said = run(["systemd-analyze", "verify", "--man=no", path])
        said = [line for line in said.splitlines() if name in line]  # of other units it speaks, too
        check(code == 0 and not said, f"{name}: {code}, {said}")


def test_server_may_do_little(env):
    path, text = unit(env, "pyrrha.service", "pyrrha")
    code, said = run(["systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager", path])
    check(code == 0, "exposure: " + said[-100:])
    check(re.search(r"^CapabilityBoundingSet=$", text, re.M) and re.search(r"^AmbientCapabilities=$", text, re.M), "it has no capability")
    check("web.listen-address" not in re.search(r"ExecStart=.*", text).group(0), "it listens on loopback unless somebody says otherwise")
    code, said = run([env.program("pyrtool"), "check", "config", os.path.join(TOP, "deploy", "pyrrha.yml")])
    check(code == 0, said)
