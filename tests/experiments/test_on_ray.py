"""Sweeps on Ray: the same bits as here, on a real cluster of two nodes."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading

import pytest
from tests.experiments.sweep.test_runs import deadly
from tests.experiments.sweeps import tiny

from evenstep.errors import InputError
from evenstep.experiments import on_ray
from evenstep.experiments.on_ray import OnRay
from evenstep.experiments.progress import Progress
from evenstep.experiments.sweep.sweeping import sweep
from evenstep.measure.swept import write_swept


class Looking(Progress):
    """Sees what SIGTERM would do whenever a run has ended."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def advance(self, label: str) -> None:
        self.seen.append(signal.getsignal(signal.SIGTERM))


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    found.add_node(num_cpus=1)
    found.wait_for_nodes()
    yield found
    found.shutdown()


@pytest.mark.engine
def test_two_nodes_give_the_same_bytes_as_this_process_and_leave_its_signals_alone(cluster, tmp_path):
    import ray

    looking = Looking()
    write_swept(sweep(tiny()), tmp_path / "here")
    write_swept(sweep(tiny(), executor="ray", ray_address=cluster.address, progress=looking), tmp_path / "ray")
    assert set(looking.seen) == {signal.getsignal(signal.SIGTERM)}
    assert (tmp_path / "ray").read_bytes() == (tmp_path / "here").read_bytes()
    assert not ray.is_initialized()


@pytest.mark.engine
def test_a_run_that_kills_its_process_on_a_node_twice_is_named(cluster, tmp_path):
    asked = tiny(over={"workers": [2]}, policies=[deadly(tmp_path, once=False)])
    with pytest.raises(InputError, match=r"deadly.py, replicate \d: process is 'lost by Ray"):
        sweep(asked, executor="ray", ray_address=cluster.address)
    (tmp_path / "mark").touch()
    assert len(sweep(asked, executor="ray", ray_address=cluster.address).runs[0][0]) == 2


@pytest.mark.engine
def test_a_cluster_that_is_not_there_is_one_clear_error(cluster):
    with pytest.raises(InputError, match="--ray-address is 'nowhere'; expected the address of a running cluster"):
        sweep(tiny(), executor="ray", ray_address="nowhere")


@pytest.mark.engine
def test_without_an_address_it_starts_a_cluster_of_its_own_and_leaves_signals_alone(cluster):
    """Not even if Ray would find another one by itself. Last: Ray then fails to join a cluster in the same process."""
    import ray

    class Asking(Looking):
        def advance(self, label: str) -> None:
            super().advance(label)
            found.add(ray.get_runtime_context().gcs_address)

    found, asking = set[str](), Asking()
    sweep(tiny(), executor="ray", progress=asking)
    assert len(found) == 1 and cluster.address not in found
    assert set(asking.seen) == {signal.getsignal(signal.SIGTERM)}


def test_without_ray_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        InputError, match=r"executor is 'ray'; expected an installed Ray. Install it with: pip install 'evenstep\[ray\]'"
    ):
        sweep(tiny(), executor="ray")


class Unjoinable:
    """A Ray that nobody can join: it waits for an answer that does not come."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.over = threading.Event()

    def is_initialized(self) -> bool:
        return False

    def init(self, address: str, **_: object) -> None:
        self.asked.append(address)
        self.over.wait()


@pytest.fixture
def unjoinable(monkeypatch):
    found = Unjoinable()
    monkeypatch.setitem(sys.modules, "ray", found)
    monkeypatch.setattr(on_ray, "ANSWER_S", 0.3)
    yield found
    found.over.set()


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield f"127.0.0.1:{found.getsockname()[1]}"


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_where_nobody_listens_ray_is_not_asked_and_the_error_names_the_address(unjoinable, scheme):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = f"{scheme}127.0.0.1:{gone.getsockname()[1]}"
    with pytest.raises(InputError, match=f"--ray-address is '{address}'; expected .* Nothing answers there"):
        OnRay({}, address)
    assert unjoinable.asked == []


def test_what_listens_and_is_no_cluster_is_given_up(unjoinable, listening):
    with pytest.raises(InputError, match=f"--ray-address is '{listening}'; .* answered within 0.3 s"):
        OnRay({}, listening)
    assert unjoinable.asked == [listening]


def test_an_address_of_the_environment_is_named_as_such(unjoinable, listening, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", listening)
    with pytest.raises(InputError, match=f"RAY_ADDRESS is '{listening}'"):
        OnRay({})


def test_a_dead_cluster_is_known_before_anything_is_compiled_or_run(unjoinable, listening, monkeypatch):
    monkeypatch.setattr("evenstep.experiments.crew.Warming", None)
    with pytest.raises(InputError, match="--ray-address"):
        sweep(tiny(), executor="ray", ray_address=listening)


@pytest.mark.engine
def test_an_address_without_a_cluster_is_one_line_and_exit_2(listening, tmp_path):
    (tmp_path / "s.yaml").write_text(
        "version: 1\nsource: sample:azure-conv\nover: {workers: [2]}\nfixed: {limit: 20}\npolicies: [jsq]\n"
    )
    words = ["sweep", "s.yaml", "--executor", "ray", "--ray-address", listening]
    code = f"import sys; from evenstep.cli.main import main; sys.exit(main({words!r}))"
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.startswith(f"sweep: --ray-address is '{listening}'; expected the address of a running")
    assert ended.stderr.count("\n") == 1
