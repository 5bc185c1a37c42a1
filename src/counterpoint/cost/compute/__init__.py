"""The price of compute: GEMMs, attention, memory-bound fusions, copies, custom calls."""

from counterpoint.cost.compute.convolution import Pricer as Pricer
from counterpoint.cost.compute.convolution import register as register
from counterpoint.cost.compute.machine import Machine as Machine
from counterpoint.cost.compute.machine import machine_of as machine_of
from counterpoint.cost.compute.pricing import price_compute as price_compute
