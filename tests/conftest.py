"""What every test run has in common: hypothesis profiles, and `--no-skips`."""

from __future__ import annotations

import gc
import os

import pytest
from hypothesis import settings

IN_CI = bool(os.environ.get("CI"))
for name, examples in {"fast": 12, "full": 100}.items():  # make test takes fast, make test-all takes full
    settings.register_profile(name, deadline=None, max_examples=examples, derandomize=IN_CI, print_blob=IN_CI)
settings.load_profile("fast")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="a skipped test fails: nothing is left out silently")
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="record the runs and logs of tests/golden anew; say in the commit which results moved, and why",
    )


def pytest_collection_finish() -> None:
    """Thousands of tests and every module stay to the end: the collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


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
