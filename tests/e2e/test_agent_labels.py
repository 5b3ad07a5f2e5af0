# SPDX-License-Identifier: Apache-2.0
"""Who it was: the agent's relabelling rules on real processes. Needs root and eBPF."""
import os
import re
import signal
import subprocess

from harness import Process, check, http_get, wait_until
from test_agent import C_FIXTURE, c_program, profile, start_agent

RULES = """
relabel_configs:
  - {source_labels: [comm], regex: fix_drop, action: drop}
  - {source_labels: [__meta_process_executable_compiler], target_label: compiler}
  - {source_labels: [__meta_process_language, __meta_process_executable_static], separator: /, target_label: kind}
  - {source_labels: [__meta_process_cmdline], regex: '.* tenant=(\\w+)', target_label: tenant}
  - {action: labeldrop, regex: exe_build_id}
"""




def metric(agent, name):
    body = http_get(agent + "/metrics")[2].decode()
    return float(re.search(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", body, re.M).group(1))


def test_rules_decide(env):
    """Labels of rules are on samples, dropped processes are not in profiles, and SIGHUP brings other rules."""
    config = env.path("agent.yml", RULES)
    agent = start_agent(env, f"--config.file={config}", "--external-label=cluster=c1", "--node=n1", "--web.enable-lifecycle")
    process = next(f.__self__ for f in env.undo if getattr(getattr(f, "__self__", None), "name", "") == "pyrrha-agent")
    Process(env, "keep", [c_program(env, "fix_keep", C_FIXTURE, "-static"), "x", "tenant=blue"])
    Process(env, "drop", [c_program(env, "fix_drop", C_FIXTURE)])
    whole = '{compiler=~"GCC [0-9.]+", kind="c/true", tenant="blue", node="n1", cluster="c1", comm="fix_keep", exe_build_id=""}'
    wait_until("the labels of the rules", lambda: profile(env, agent, 1, whole)[0], 30)
    check(not profile(env, agent, 1, '{comm="fix_drop"}')[0], "a dropped process is in the profile")
    check(metric(agent, "pyrrha_agent_dropped_samples_total") > 0, "nothing was counted as dropped")
    # a file that does not load changes nothing
    env.path("agent.yml", "relabel_configs:\n- {action: nonsense}\n")
    status, _, body = http_get(agent + "/-/reload", data=b"")
    check(status == 500 and b"agent.yml:2:" in body, f"{status} {body!r}")
    check(metric(agent, "pyrrha_agent_config_last_reload_successful") == 0, "a failed reload looks like a success")
    check(not profile(env, agent, 1, '{comm="fix_drop"}')[0], "the old rules are gone")
    # the other way round
    env.path("agent.yml", "relabel_configs:\n- {source_labels: [comm], regex: fix_keep, action: drop}\n")
    process.p.send_signal(signal.SIGHUP)
    wait_until("the new rules", lambda: profile(env, agent, 1, '{comm="fix_drop"}')[0], 30)
    check(not profile(env, agent, 1, '{comm="fix_keep"}')[0], "a dropped process is in the profile")
    check(metric(agent, "pyrrha_agent_config_last_reload_successful") == 1, "a reload that worked looks like a failure")


def test_a_bad_file_stops_the_start(env):
    config = env.path("agent.yml", "relabel_configs:\n- {source_labels: [comm], action: keep, regexp: x}\n")
    start_agent(env)  # the rights to run at all
    said = subprocess.run([env.program("pyrrha-agent"), f"--config.file={config}", "--web.listen-address=127.0.0.1:0"],
                          capture_output=True, text=True, timeout=60)
    check(said.returncode == 1 and "agent.yml:2:" in said.stderr and "regexp" in said.stderr, said.stderr)
