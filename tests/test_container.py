"""Commands where a container runs them: nobody's user, no home, a read-only root, a small disk for logs."""

from __future__ import annotations

import http.client
import json
import signal
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.container import Container

from evenstep.dispatch.replay import replay
from evenstep.experiments.plain_first import MEANWHILE

pytestmark = pytest.mark.slow
SMALL = ("sample:azure-conv", "--limit", "40", "--workers", "2", "--slots", "4")


@pytest.fixture(scope="module")
def folder():
    """A folder that every user may enter: those of pytest are its user's alone."""
    with tempfile.TemporaryDirectory(prefix="evenstep-") as found:
        Path(found).chmod(0o755)
        yield Path(found)


@pytest.fixture(scope="module")
def container(folder):
    """One with a folder for caches, which are kept from command to command, and a log disk of 64 kB."""
    (folder / "cache").mkdir()
    (folder / "log").mkdir()
    made = Container(folder, {folder / "cache": 0, folder / "log": 64 << 10})
    yield made
    made.end()


@pytest.mark.parametrize("variable", ["TMPDIR", "XDG_CACHE_HOME"])
def test_kernels_are_kept_in_the_folder_that_can_be_written_and_it_is_named(container, folder, variable):
    place = folder / "cache" / variable
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    code, first, said = container.run("simulate", *SMALL, **{variable: str(place)})
    assert code == 0, said
    told, meanwhile = said.splitlines()
    assert f"compiling kernels, up to a minute or two; kept in {place}/" in told
    assert MEANWHILE in meanwhile
    _, again, _ = container.run("simulate", *SMALL, **{variable: str(place)})
    assert again == first


def test_without_any_such_folder_kernels_are_compiled_at_every_start_and_it_says_so(folder):
    (folder / "bare").mkdir()
    code, out, said = Container(folder / "bare").run("simulate", *SMALL, TMPDIR="/nonexistent")
    assert code == 0 and "makespan_s" in out
    told, meanwhile = said.splitlines()
    assert "every start compiles; give XDG_CACHE_HOME or TMPDIR a folder" in told
    assert MEANWHILE in meanwhile


def test_comparisons_and_pictures_need_no_home(container, folder):
    env = {"XDG_CACHE_HOME": str(folder / "cache")}
    words = ("compare", *SMALL, "--seeds", "1", "--policy", "jsq", "--policy", "br-0", "--processes", "1")
    report = str(folder / "cache" / "a.html")
    code, out, said = container.run(*words, "--report", report, **env)
    assert code == 0, said
    assert "br-0" in out and all("kernels" in line for line in said.splitlines())
    words = ("trace", "inspect", "sample:azure-conv", "--plot", str(folder / "cache" / "trace.html"))
    code, out, said = container.run(*words, TMPDIR=str(folder / "cache"))
    assert (code, said) == (0, ""), said


@contextmanager
def ended_after(process):
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process.stderr.close()


def port_of(process, more=""):
    """The port in the first line that names one."""
    for line in process.stdout:
        for word in line.split():
            if word.startswith("http://") and more in line:
                return int(word.rstrip("/").partition("//")[2].partition("/")[0].rpartition(":")[2])
    raise AssertionError(process.stderr.read())


def asked(port, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Content-Type": "application/json"}
    connection.request("POST" if body else "GET", path, json.dumps(body) if body else None, headers)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


def test_a_gateway_serves_on_while_its_log_disk_is_full_and_heals_when_there_is_room(container, folder, tmp_path):
    env = {
        "TMPDIR": str(folder / "cache"),
        "EVENSTEP_PLAIN": "1",
    }  # what is compiled is none of this test's business
    body = {"model": "emulated", "prompt": "x " * 40, "max_tokens": 4, "ignore_eos": True, "stream": True}
    with ExitStack() as stack:
        engine = stack.enter_context(
            ended_after(container.start("emulate", "--port", "0", "--ranks", "2", "--speed", "50", **env))
        )
        worker = f"http://127.0.0.1:{port_of(engine)},ranks=2"
        log = folder / "log" / "decisions.evlog"
        words = ["--port", "0", "--admin-port", "0", "--worker", worker, "--log-decisions", str(log)]
        gateway = stack.enter_context(ended_after(container.start("serve", *words, "--set", "decisions.retry_s=1", **env)))
        port, admin = port_of(gateway), port_of(gateway, "/metrics")
        while not gateway.stdout.readline().startswith("ready: emulated on 2 workers"):
            assert gateway.poll() is None

        def ask():
            status, text = asked(port, "/v1/completions", body)
            assert status == 200 and text.count("data: ") == 5 and "[DONE]" in text, text

        def ready():
            status, text = asked(admin, "/readyz")
            assert status == 200
            return json.loads(text)["notes"]

        assert ready() == []
        for _ in range(5000):
            ask()
            if ready():
                break
        assert "the decision log of emulated failed" in ready()[0]
        for _ in range(50):
            ask()
        assert 'evenstep_decision_log_failed{model="emulated"} 1' in asked(admin, "/metrics")[1]
        container.free(gateway, folder / "log")
        for _ in range(5000):
            ask()
            if not ready():
                break
            time.sleep(0.05)
        assert ready() == []
        for _ in range(100):
            ask()
        gateway.send_signal(signal.SIGSTOP)
        for part in container.inside(gateway, folder / "log").iterdir():
            (tmp_path / part.name).write_bytes(part.read_bytes())
        gateway.send_signal(signal.SIGCONT)
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(60) == 0
        said = gateway.stderr.read()
        # The small disk may fill again before the gateway has ended: only the first failure had to heal.
        assert said.count("is written again") == 1, said
        assert 1 <= said.count("the decision log failed and is closed") <= 2, said
        assert "Traceback" not in said and "bug of evenstep" not in said
    found = replay(tmp_path / "decisions.evlog")
    assert found.difference is None and found.events > 0
