"""The journal of an experiment of two losses."""

from pathlib import Path

from orchestrator.journal.trial import TrialState
from tests.support.experiments import add_repeats, add_trial, begun, make_experiment, open_test


def write(output: Path, name: str, *, confirmed: bool, data: str = "d1") -> Path:
    """Write the journal of an experiment of two losses, with its confirmation by three seeds or without."""
    experiment = make_experiment(name=name, confirm={"top": 1, "seeds": 3} if confirmed else None)
    with begun(output / name, experiment, data={"pets:global": data}) as ledger:
        trials = [add_trial(ledger, [value], loss=loss) for loss, value in (("nt_xent", 30.0), ("triplet_sh", 20.0))]
        add_trial(ledger, [40.0], state=TrialState.STOPPED_EARLY)
        if confirmed:
            values = ([10.0, 11.0, 12.0], [20.0, 21.0, 22.0])
            open_test(ledger, add_repeats(ledger, zip(trials, values, strict=True), 0))
    return output / name
