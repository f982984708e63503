"""Sweeps on Ray: the same bits as here, on a real cluster of two nodes."""

from __future__ import annotations

import sys

import pytest
from tests.experiments.sweeps import tiny
from tests.experiments.test_sweep_runs import deadly

from evenstep.errors import InputError
from evenstep.experiments.sweep import sweep
from evenstep.measure.swept import write_swept


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    found.add_node(num_cpus=1)
    found.wait_for_nodes()
    yield found
    found.shutdown()


@pytest.mark.engine
def test_two_nodes_give_the_same_bytes_as_this_process(cluster, tmp_path):
    import ray

    write_swept(sweep(tiny()), tmp_path / "here")
    write_swept(sweep(tiny(), executor="ray", ray_address=cluster.address), tmp_path / "ray")
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
    with pytest.raises(
        InputError, match="--ray-address is 'nowhere'; expected the address of a running cluster"
    ):
        sweep(tiny(), executor="ray", ray_address="nowhere")


def test_without_ray_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        InputError, match=r"executor is 'ray'; expected an installed Ray. Install evenstep\[ray\]"
    ):
        sweep(tiny(), executor="ray")
