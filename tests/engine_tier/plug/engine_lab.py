"""What vLLM 0.32 lacks to run on a small machine without a GPU: a general plug-in, found by lying on PYTHONPATH.

Nothing here changes what an engine computes or says; only that it can, and that it leaves the processor alone meanwhile.
"""

from __future__ import annotations

import os
from typing import Any

_BUSY_S, _POLL_MS = 0.0005, 1


def register() -> None:
    """Called by vLLM in each of its processes."""
    _ask_for_amx()
    _spin_briefly()
    _gather_unequal_parts()
    if "VLLM_NIXL_SIDE_CHANNEL_PORT" in os.environ:
        _transfer_without_threads()


def _ask_for_amx() -> None:
    """Tile registers must be asked of the kernel before first use; vLLM does so for prompts it computes, not for fetched ones."""
    import torch

    if torch.cpu._is_amx_tile_supported():
        torch.cpu._init_amx()


def _spin_briefly() -> None:
    """A worker that waits for its next step spins for a second; on two cores that starves whoever should send it."""
    from vllm.distributed.device_communicators.shm_broadcast import SpinCondition

    if hasattr(SpinCondition, "is_brief"):
        return
    wait = SpinCondition.wait

    def brief(self: Any, timeout_ms: int | None = None) -> None:
        self.busy_loop_s = _BUSY_S
        wait(self, _POLL_MS if timeout_ms is None else min(timeout_ms, _POLL_MS))

    SpinCondition.wait, SpinCondition.is_brief = brief, True


def _gather_unequal_parts() -> None:
    """The two collectives that a mixture of experts on data-parallel ranks needs and the CPU communicator lacks."""
    import torch
    from torch import distributed
    from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator

    def all_gatherv(self: Any, input_: Any, dim: int = 0, sizes: list[int] | None = None) -> Any:
        """Rows of every rank, one after the other. All tensors travel in one message, as bytes padded to the longest rank."""
        assert dim == 0
        parts = input_ if isinstance(input_, list) else [input_]
        rows = parts[0].shape[0]
        sizes = sizes or [rows] * self.world_size
        flat = [part.contiguous().view(rows, -1).view(torch.uint8) for part in parts]
        sent = torch.zeros((max(sizes), sum(part.shape[1] for part in flat)), dtype=torch.uint8)
        torch.cat(flat, dim=1, out=sent[:rows])
        received = [torch.empty_like(sent) for _ in sizes]
        distributed.all_gather(received, sent, group=self.device_group)
        whole = torch.cat([found[:size] for found, size in zip(received, sizes, strict=True)])
        out, column = [], 0
        for part, piece in zip(parts, flat, strict=True):
            bytes_ = whole[:, column : column + piece.shape[1]].contiguous()
            out.append(bytes_.view(part.dtype).view(-1, *part.shape[1:]))
            column += piece.shape[1]
        return out if isinstance(input_, list) else out[0]

    def reduce_scatterv(self: Any, input_: Any, dim: int = -1, sizes: list[int] | None = None) -> Any:
        """This rank's rows of the sum over ranks, summed in float32."""
        assert dim == 0
        total = input_.to(torch.float32)
        distributed.all_reduce(total, group=self.device_group)
        sizes = sizes or [input_.shape[0] // self.world_size] * self.world_size
        return total.split(sizes)[self.rank_in_group].to(input_.dtype)

    CpuCommunicator.all_gatherv, CpuCommunicator.reduce_scatterv = all_gatherv, reduce_scatterv


def _transfer_without_threads() -> None:
    """NIXL's progress thread keeps a core busy per engine; transfers go on without it."""
    from nixl import _api

    config = _api.nixl_agent_config
    if hasattr(config, "is_quiet"):
        return

    def quiet(*args: Any, **options: Any) -> Any:
        return config(*args, **{**options, "enable_prog_thread": False, "num_threads": 0})

    quiet.is_quiet = True  # type: ignore[attr-defined]
    _api.nixl_agent_config = quiet
