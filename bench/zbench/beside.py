"""What else ran while a side was measured: the servers whose turn it wasn't,
and the rest of the machine.  A bench that shares its processors, or counts the
other side's autovacuum, shows it here."""
from __future__ import annotations

import os
import time

from .measure import TICK, server_cpu
from .server import Side


def machine_cpu() -> float:
    """CPU seconds of all processes of the machine since its start."""
    with open("/proc/stat") as f:
        user, nice, system, _, _, irq, soft = map(int, f.readline().split()[1:8])
    return (user + nice + system + irq + soft) * TICK


def own_cpu() -> float:
    """CPU seconds of this process and of its clients that have ended."""
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


class Beside:
    """From its making to stop(): processors that others kept busy."""

    def __init__(self, side: Side, sides: list[Side]):
        self._side = side
        self._others = [s for s in sides if s is not side and s.running]
        self._pids = self._postmasters()
        self._start = time.monotonic()
        self._before = self._look()

    def _postmasters(self) -> list[int]:
        return [s.postmaster() for s in [self._side, *self._others]]

    def _look(self) -> tuple[float, float]:
        others = sum(map(server_cpu, self._others))
        return others, machine_cpu() - own_cpu() - \
            server_cpu(self._side) - others

    def stop(self) -> dict[str, float] | None:
        """None if a server was restarted, or it was too short to tell."""
        wall = time.monotonic() - self._start
        if wall < 0.5 or not self._side.running or \
                self._postmasters() != self._pids:
            return None
        others, rest = (max(0.0, after - before) / wall for after, before
                        in zip(self._look(), self._before))
        return {"seconds": round(wall, 3), "servers": round(others, 4),
                "rest": round(rest, 4)}


def told(found: list[dict[str, float]]) -> str:
    """A line of the report."""
    total = sum(f["seconds"] for f in found)
    if not total:
        return "what else ran is not known"

    def figures(name: str) -> str:
        mean = sum(f[name] * f["seconds"] for f in found) / total
        return f"{mean:.3f} processors ({max(f[name] for f in found):.3f} " \
            "at most)"
    return "beside the side that was measured ran: the other server, its " \
        f"autovacuum off, with {figures('servers')}; everything else on " \
        f"this machine with {figures('rest')}"
