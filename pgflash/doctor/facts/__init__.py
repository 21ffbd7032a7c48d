"""What checks are made on: the machine, the server, the places where files are. Each is looked at once, when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from pgflash.doctor.facts.blocks import Block
from pgflash.doctor.facts.limits import Control, Limits, control_of, limits_of
from pgflash.doctor.facts.machine import Machine
from pgflash.doctor.facts.places import Place, find_places
from pgflash.doctor.facts.server import Server
from pgflash.doctor.facts.smart import Health, health_of
from pgflash.doctor.facts.waits import Waits


@dataclass
class Facts:
    machine: Machine
    server: Server | None = None
    flash: str = ""
    data: str = ""
    sample: Callable[[], Waits] | None = None
    no_server: str = "no server was named: pgflash doctor 'dbname=postgres'"
    _health: dict[str, Health | str] = field(default_factory=dict)

    @cached_property
    def places(self) -> list[Place]:
        return find_places(self.machine, self.server, self.flash, self.data)

    @cached_property
    def waits(self) -> Waits | None:
        return self.sample() if self.sample else None

    @cached_property
    def limits(self) -> Limits | None:
        return limits_of(self.machine, self.server.postmaster) if self.server and self.server.postmaster else None

    @cached_property
    def control(self) -> Control:
        return control_of(self.machine, self.server.postmaster if self.server and self.server.postmaster else None)

    def role(self, *roles: str) -> list[Place]:
        return [place for place in self.places if place.role in roles]

    @cached_property
    def drives(self) -> list[Block]:
        """Each drive below a place once."""
        found = {leaf.name: leaf for place in self.places if place.block for leaf in place.block.leaves()}
        return list(found.values())

    def health(self, block: Block) -> Health | str:
        if block.name not in self._health:
            self._health[block.name] = health_of(self.machine, block.name)
        return self._health[block.name]
