"""Presses that come before the specimen has recovered: noted, counted, refused; and left in peace when it has."""

import itertools
from collections import namedtuple

import numpy as np
import pytest

from bench.errors import Refused
from bench.identify.contact_fit import fit_contact
from bench.identify.frame import RIGID
from bench.identify.memory import NOTED, check_memory
from bench.identify.segment import find_presses, presses_from_phases

Phase = namedtuple("Phase", "name replicate start_s end_s")
SHAPE = np.array([1.5, 0.22, 0.5, 0.2, 8.0])
SURFACE_MM, DEPTH_MM, F_REF, D_REF = 10.0, 6.0, 3.0, 5.0


@pytest.fixture(scope="module")
def record(relaxing):
    """Make a record of three presses at 2 mm/s with rests between; it is returned with its phases."""

    def make(settle_s, noise_N=3e-3):
        knots, travel, phases = [0.0], [0.0], []
        top = 3.0 + DEPTH_MM
        legs = (("baseline", 1.0, 0.0), ("rise", top / 2.0, top), ("hold", 8.0, top), ("unload", top / 2.0, 0.0))
        for replicate in range(3):
            for name, duration, end in legs:
                phases.append(Phase(name, replicate, knots[-1], knots[-1] + duration))
                knots.append(knots[-1] + duration)
                travel.append(end)
            knots.append(knots[-1] + settle_s)
            travel.append(0.0)
        fine = np.arange(round(knots[-1] / 5e-3)) * 5e-3
        tip = SURFACE_MM - 3.0 + np.interp(fine, knots, travel)
        elastic = F_REF * (np.maximum(tip - SURFACE_MM, 0.0) / D_REF) ** SHAPE[0]
        force = relaxing(fine, elastic, SHAPE[1::2], SHAPE[2::2])
        time_s, tip, force = fine[::2], tip[::2], force[::2]
        return time_s, tip, force + noise_N * np.random.default_rng(1).standard_normal(len(force)), tuple(phases)

    return make


@pytest.fixture(scope="module")
def presses(record):
    return {settle: presses_from_phases(*record(settle)) for settle in (15.0, 35.0, 75.0)}


@pytest.fixture(scope="module")
def truth(record):
    """Force at the reference depth on the way in, of a specimen at rest."""
    _, tip, force, _ = record(1.0, noise_N=0.0)
    return float(np.interp(SURFACE_MM + D_REF, tip[:550], force[:550]))


def fitted(presses, **options):
    return fit_contact(presses, model="qlv2", reference_depth_mm=D_REF, **options)


@pytest.mark.parametrize("contact", ["fit", "power_law", "threshold_5sigma"])
def test_presses_that_come_too_early_are_refused_whatever_found_the_contact(presses, contact):
    with pytest.raises(Refused, match=r"had not recovered .* Settle so that at least \d+ s pass") as refusal:
        fitted(presses[15.0], contact=contact)
    assert refusal.value.reason == "not_recovered"


def test_what_is_refused_would_have_been_wrong_and_looked_sure(presses, truth):
    """Whoever asks for the number all the same gets the memory as its uncertainty, and the limit on record."""
    fit = fitted(presses[15.0], memory_limit=1.0)
    force = fit.force_at(D_REF, 2.0)
    assert force.value / truth - 1.0 > 0.03
    assert fit.values[1] < 1.48
    assert force.value - force.expanded_uncertainty < truth
    assert force.budget["specimen memory"] == pytest.approx(force.value - truth, rel=0.3)
    assert fit.steps["memory_limit"] == 1.0
    assert any(note.startswith("the specimen had not recovered") for note in fit.notes)


@pytest.mark.parametrize("contact", ["fit", "power_law"])
def test_a_little_memory_is_noted_and_counts(presses, truth, contact):
    fit = fitted(presses[35.0], contact=contact)
    force = fit.force_at(D_REF, 2.0)
    assert any(note.startswith("the specimen had not recovered") for note in fit.notes)
    assert "specimen memory" in {source.name for source in fit.sources}
    assert abs(force.value - truth) < force.expanded_uncertainty
    assert force.budget["specimen memory"] > 0.005 * truth


def test_a_recovered_specimen_is_left_in_peace(presses, truth):
    fit = fitted(presses[75.0])
    assert not any("recovered" in note for note in fit.notes)
    assert "specimen memory" not in {source.name for source in fit.sources}
    assert fit.force_at(D_REF, 2.0).value == pytest.approx(truth, rel=3e-3)
    assert len(fit.steps["memory"]) == 2, "the first press has nothing to remember"
    assert max(abs(one["force_share"]) for one in fit.steps["memory"]) < NOTED


def test_the_rest_that_is_named_is_enough_and_not_far_more(presses, record):
    """It comes from a bent fit when it is asked for, so it is held against the answer from the true law."""
    with pytest.raises(Refused) as refusal:
        fitted(presses[15.0])
    named = float(str(refusal.value).split("at least ")[1].split(" s")[0])
    found = fitted(presses_from_phases(*record(named)))
    shares = [abs(one["force_share"]) for one in found.steps["memory"]]
    assert 0.3 * NOTED < max(shares) < 1.3 * NOTED


def test_the_dent_and_the_change_of_force_are_those_of_the_record(record):
    """With the true law: where the quadrature's second press touches, and how its force differs from the first's."""
    time_s, tip, force, phases = record(15.0, noise_N=0.0)
    first, second = presses_from_phases(time_s, tip, force, phases)[:2]
    found = check_memory([first, second], SHAPE, [SURFACE_MM] * 2, [0.0] * 2, d_ref=D_REF, frame=RIGID)
    (memory,) = found.memories
    touched = second.position_mm[second.rise][int(np.argmax(second.force_N[second.rise] > 0.0))]
    assert memory.dent_mm == pytest.approx(touched - SURFACE_MM, abs=0.025)
    assert memory.peak_share == pytest.approx(second.force_N.max() / first.force_N.max() - 1.0, rel=0.05)
    when, change = found.changes[1]
    moved = F_REF * np.interp(second.time_s, when, change)
    pressing = slice(second.rise.start, second.hold.stop)
    assert moved[pressing] == pytest.approx((second.force_N - first.force_N[: len(moved)])[pressing], abs=0.02)
    assert memory.rest_s == pytest.approx(15.0, abs=0.1)


def test_each_press_of_a_record_knows_those_before_it(record):
    time_s, tip, force, phases = record(15.0)
    found = presses_from_phases(time_s, tip, force, phases)
    assert [len(press.history) for press in found] == [0, 1, 2]
    without_phases = find_presses(time_s, tip, force)
    assert [len(press.history) for press in without_phases] == [0, 1, 2]
    for press in (*found, *without_phases):
        ends = [*(before.time_s for before in press.history), press.time_s]
        assert all(a[-1] < b[0] for a, b in itertools.pairwise(ends)), "a moment of the record is lived through once"


def test_the_memory_is_found_without_phases_too(record):
    with pytest.raises(Refused, match="had not recovered") as refusal:
        fitted(find_presses(*record(15.0)[:3]))
    assert refusal.value.reason == "not_recovered"


def test_where_nothing_is_known_or_nothing_relaxes_there_is_no_memory(presses, press):
    assert fitted([press(hold_s=8.0, g=(0.22, 0.2), tau_s=(0.5, 8.0))]).steps["memory"] == []
    elastic = fit_contact(presses[15.0], model="power_law", segments=("rise",))
    assert elastic.steps["memory"] == []
