"""What every test run has in common: hypothesis profiles, and `--no-skips`."""

from __future__ import annotations

import gc
import os
import signal
from typing import Any

import pytest
from hypothesis import settings
from tests import modules_run
from tests.profiles import FAST, FULL

# Before numpy is loaded, here and in processes that tests start. A second thread only spins: the tests run on every core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
IN_CI = bool(os.environ.get("CI"))
for name, examples in {"fast": FAST, "full": FULL}.items():  # make test takes fast, make test-all takes full
    settings.register_profile(name, deadline=None, max_examples=examples, derandomize=IN_CI, print_blob=IN_CI)
settings.load_profile("fast")
_run_elsewhere: set[str] = set()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--modules-run", action="store_true", help="a module of src that no test runs fails the session")
    parser.addoption("--no-skips", action="store_true", help="a skipped test fails: nothing is left out silently")
    parser.addoption(
        "--update-golden",
        choices=("new", "digests", "logs"),
        help="record new runs of tests/golden, all runs, or its decision logs; say in the commit which moved, and why",
    )


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # until everything is collected
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background jobs ignore Ctrl-C; tests send it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("--modules-run"):
        modules_run.install()


@pytest.hookimpl(optionalhook=True)  # a hook of pytest-xdist, which `make mutants` runs without
def pytest_testnodedown(node: Any) -> None:
    """A worker process has ended."""
    _run_elsewhere.update(getattr(node, "workeroutput", {}).get("modules_run", ()))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not session.config.getoption("--modules-run"):
        return
    ran = modules_run.run_here()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["modules_run"] = sorted(ran)
        return
    missing = sorted(modules_run.modules() - ran - _run_elsewhere)
    if missing:
        print(f"\nno test runs {len(missing)} modules: {', '.join(missing)}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_finish() -> None:
    """Thousands of tests and every module stay to the end: the collector need not look at them again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # as a server has it: `sockets`
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    """Each test finds the handlers of signals as they were before the first: a loop of uvloop leaves its own behind."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return (yield)
    finally:
        for number, handler in handlers.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and item.config.getoption("--no-skips"):
        report.outcome, report.longrepr = "failed", f"skipped, and nothing may be: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):
    report = yield
    if report.skipped and collector.config.getoption("--no-skips"):
        report.outcome, report.longrepr = "failed", f"skipped, and nothing may be: {report.longrepr}"
    return report
