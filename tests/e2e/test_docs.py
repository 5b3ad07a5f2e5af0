# SPDX-License-Identifier: Apache-2.0
"""The commands of all pages: each fence is marked (docs_pages.py), most are run, and what is run succeeds. There is a test docs.PAGE_NAME for each NAME of a page."""
import docs_pages
from docs_room import Room, missing_line, stands_in
from harness import check

SHARE = 0.8
QUICK = {"README.md"}  # ./check runs the commands of these pages; --all those of all


def commands():
    return [f for f in docs_pages.all_fences() if f.is_shell]


def test_fences_are_marked(env):
    problems = [f"{f.where}: {p}" for f in docs_pages.all_fences() for p in [f.problem()] if p]
    names = {}
    for name, fences in docs_pages.page_tests().items():
        first = next((f for f in fences if f.is_shell), None)
        if not first:
            problems.append(f"{fences[0].where}: no fence of commands has test={fences[0].test}")
        names.setdefault(name, set()).add(fences[0].page)
    check(not problems, "\n   ".join(["", *problems]))


def test_most_are_run(env):
    """Counts fences, and those of which a stand-in does some commands."""
    all_of_them = commands()
    done = [f for f in all_of_them if f.test]
    stood_in = sum(map(stands_in, done))
    text = (f"{len(done)} of {len(all_of_them)} fences of commands are run ({100 * len(done) // max(1, len(all_of_them))} %), {stood_in} of them with a stand-in for "
            "systemd, Docker, apt or a cluster")
    print("# " + text)
    left = "".join(f"\n   {f.where}: {f.marks.get('norun', 'unmarked')}" for f in all_of_them if not f.test)
    check(len(done) >= SHARE * len(all_of_them), f"{text}; at least {100 * SHARE:.0f} % have to be. These are not:{left}")


def test_output_is_compared(env):
    """What a page shows is looked for in what was printed: in its order, numbers and blanks aside."""
    printed = "target  state\nshop:6060   up 12.5 ms\n\nend\n"
    check(missing_line(["shop:6060 up 3 ms", "end"], printed) is None, "numbers")
    check(missing_line(["shop:... up", "..."], printed) is None, "dots")
    check(missing_line(["401"], "200\n") == "401", "a status")
    check(missing_line(["password: 3f0c3c9d0d7a4c1f9c3be2a9b51c0f5e (once)"], "password: 00ab3c9d0d7a4c1f9c3be2a9b51c0f5e  (once)\n") is None, "a random number")
    check(missing_line(["end", "target state"], printed) == "target state", "order")
    check(missing_line(["shop:6060 down 3 ms"], printed) == "shop:6060 down 3 ms", "another word")


def page_test(fences):
    def test(env):
        room = Room(env, fences)
        for f in fences:
            room.run(f)
        room.finish()
    test.slow = fences[0].page not in QUICK or any("slow" in f.marks for f in fences)
    return test


for _name, _fences in docs_pages.page_tests().items():
    globals()["test_" + _name] = page_test(_fences)
