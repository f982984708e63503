"""The key of a run: the same for what decides alike, another for whatever may decide otherwise."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

from evenstep import names
from evenstep.cost.linear import Linear
from evenstep.experiments.contenders import contender
from evenstep.experiments.jobs import Plan
from evenstep.experiments.sweep import key as sweep_key
from evenstep.experiments.sweep.key import content, key_of
from evenstep.request import Trace
from evenstep.sim.cluster.simulation import Cluster

PLAN = Plan(Trace(np.arange(1, 9), np.full(8, 2)), Cluster(workers=2, slots=2), Linear())


def key(plan=PLAN, policy="br-0", trace="t", index=0):
    return key_of(plan, contender(policy), trace, index)


def test_the_same_run_has_the_same_key_however_it_was_asked_for():
    assert key() == key()
    assert key(policy="br-0:candidates=8") == key(policy={"name": "br-0", "candidates": 8})
    assert key(replace(PLAN, seed=1), index=2) == key(replace(PLAN, seed=2), index=1)


def test_everything_that_may_decide_changes_the_key():
    keys = {
        key(),
        key(policy="jsq"),
        key(policy="br-0:candidates=3"),
        key(policy="bf-io:horizon=5,predictor=oracle"),
        key(trace="u"),
        key(index=1),
        key(replace(PLAN, cluster=Cluster(workers=2, slots=3))),
        key(replace(PLAN, step_time=Linear(overhead_s=1.0))),
    }
    assert len(keys) == 8


def test_another_version_or_another_source_file_of_ours_changes_the_key(monkeypatch):
    before = key()
    monkeypatch.setattr(sweep_key, "code_digest", lambda: "other")
    assert key() != before
    monkeypatch.undo()
    monkeypatch.setattr("evenstep.__version__", "99")
    assert key() != before


def test_a_policy_of_ones_own_is_known_by_its_source_and_its_kernels(tmp_path):
    def own(folder, body, kernel=""):
        file = tmp_path / folder / f"{folder}.py"
        file.parent.mkdir()
        file.write_text(body)
        if kernel:
            file.with_name(f"{folder}_kernel.py").write_text(kernel)
        return key(policy=str(file))

    body = "class Mine:\n    def route(self, view): ...\npolicy = Mine\n"
    keys = {
        own("one", body),
        own("two", body + "# changed\n"),
        own("three", body, "x = 1\n"),
        own("four", body, "x = 2\n"),
    }
    assert len(keys) == 4


def test_a_text_that_names_a_file_stands_for_its_content(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert content("h100.csv") == "h100.csv"
    path = tmp_path / "h100.csv"
    path.write_text("load,seconds\n")
    first = content("h100.csv")
    assert first == content(str(path)) != "h100.csv"
    path.write_text("load,seconds\n0,1\n")
    assert content("h100.csv") != first
    (tmp_path / "steps").write_text("load,seconds\n")
    assert content("steps") != "steps", "a file needs no suffix"


def test_a_policy_of_a_package_without_init_is_known_by_all_sources_of_the_package(tmp_path, monkeypatch):
    package = tmp_path / "package_without_init"
    package.mkdir()
    (package / "mine.py").write_text("class Mine:\n    def route(self, view): ...\n")
    (package / "other.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    kind = names.find("routing", "package_without_init.mine:Mine")
    first = content(kind())
    (package / "other.py").write_text("x = 2\n")
    assert content(kind()) == first, "this process has loaded the code before the edit"
    for known in (sweep_key._source_digest, sweep_key._digest):
        known.cache_clear()
    assert content(kind()) != first


def test_a_policy_that_is_edited_gets_another_key_in_the_same_process(tmp_path):
    file = tmp_path / "mine.py"
    body = "class Mine:\n    def route(self, view): ...\npolicy = Mine\n"
    file.write_text(body)
    first = key(policy=str(file)), key(policy=f"{file}:Mine")
    file.write_text(body + "# changed\n")
    os.utime(file, ns=(1, 1))
    assert key(policy=str(file)) != first[0]
    assert key(policy=f"{file}:Mine") != first[1]


def test_a_policy_of_ones_own_is_known_by_the_modules_that_it_imports(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_too.py").write_text(
        "import helping\nfrom helping_too.deep import y\nclass Mine:\n    def route(self, view): ...\n"
    )
    (tmp_path / "helping.py").write_text("x = 1\n")
    (tmp_path / "helping_too").mkdir()
    (tmp_path / "helping_too" / "deep.py").write_text("y = 1\n")
    (tmp_path / "helping_too" / "old.py").write_text('print "nothing imports this"\n')
    kind = names.find("routing", "mine_too:Mine")
    seen = [content(kind())]
    for file in ("helping.py", "helping_too/deep.py"):
        (tmp_path / file).write_text("x = y = 2\n")
        for known in (sweep_key._source_digest, sweep_key._digest):  # as in a new process
            known.cache_clear()
        seen.append(content(kind()))
    assert len({repr(one) for one in seen}) == 3


def test_a_policy_of_ones_own_is_known_by_the_modules_on_the_path_that_it_imports(tmp_path, monkeypatch):
    """They stand where the how-to page puts helpers. A sweep gave old results for an edited helper."""
    for folder in ("own", "shared", "shared/pack"):
        (tmp_path / folder).mkdir()
    mine, helper, part = (
        tmp_path / "own" / "mine.py",
        tmp_path / "shared" / "shared_help.py",
        tmp_path / "shared" / "pack" / "a.py",
    )
    mine.write_text("class Mine:\n    def route(self, view):\n        import shared_help, numpy, json\npolicy = Mine\n")
    helper.write_text("from pack import a\n")
    part.with_name("__init__.py").write_text("")
    part.write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path / "shared"))
    known = []
    for file in (None, helper, part):
        if file is not None:
            file.write_text(f"{file.read_text()}# edited\n")
        for kept in (sweep_key._source_digest, sweep_key._digest, sweep_key._of_path):
            kept.cache_clear()  # as in a new process
        known.append(content(names.build("routing", {"name": str(mine)})))
    assert len({str(one) for one in known}) == 3


def test_moved_folders_of_a_policy_and_its_helpers_keep_the_key(tmp_path, monkeypatch):
    """The modules came in the order of their full paths, so a policy moved from `own` to `some` was run anew."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "moved_help.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path / "path"))
    known = []
    for folder in ("own", "some"):
        mine = tmp_path / folder / "mine.py"
        mine.parent.mkdir()
        mine.write_text("import moved_help\nclass policy:\n    def route(self, view): ...\n")
        known.append(content(names.build("routing", {"name": str(mine)})))
    assert known[0] == known[1]


def test_classes_without_a_file_share_no_key(monkeypatch):
    made = [type("Mine", (), {"__module__": "__main__"}) for _ in range(2)]
    monkeypatch.setattr("__main__.__file__", "<stdin>", raising=False)
    assert content(made[0]()) == content(made[0]()) != content(made[1]())


def test_a_word_that_is_also_a_file_is_another_word_still(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for word in ("index", "free-slots"):
        (tmp_path / word).touch()
    assert key(policy="fcfs:fill=index") != key(policy="fcfs:fill=free-slots")


def test_a_file_of_ones_own_keeps_its_runs_in_another_folder(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "v1.2.py").write_text("class Mine:\n    def route(self, view): ...\npolicy = Mine\n")
    assert key(policy=str(tmp_path / "one" / "v1.2.py")) == key(policy=str(tmp_path / "two" / "v1.2.py"))


def test_values_that_differ_have_contents_that_differ():
    one = [np.arange(3), np.arange(3.0), (1, 2), 1.0, 1, True, "1", None, {"a": 1}]
    seen = [repr(content(value)) for value in one]
    assert len(set(seen)) == len(seen)
