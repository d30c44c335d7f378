"""The issuer without Ray: what failed comes first, and fewer at a time means fewer."""

from collections import deque

from orchestrator.journal.ledger import Ledger
from orchestrator.journal.trial import Trial, TrialState
from orchestrator.tuner.issuer import Issuer
from tests.support.experiments import add_trial
from tests.support.records import append


class Listed:
    def __init__(self, trials: list[Trial]) -> None:
        self.left, self.seen = deque(trials), list[str]()

    @property
    def outstanding(self) -> int:
        return len(self.left)

    def next(self) -> Trial | None:
        return self.left.popleft() if self.left else None

    def observe(self, trial: Trial) -> None:
        self.seen.append(trial.id)


def listed(ledger: Ledger, count: int) -> Listed:
    return Listed([add_trial(ledger, [], state=TrialState.RUNNING) for _ in range(count)])


def issued(issuer: Issuer, *ray_ids: str) -> list[str | None]:
    """Return the numbers of the trials that are suggested, ``None`` for none now."""
    answers = [issuer.suggest(ray_id) for ray_id in ray_ids]
    return [answer["trial"][-1] if isinstance(answer, dict) else answer for answer in answers]


def test_a_failed_trial_comes_before_new_ones_and_the_end_waits_for_those_that_run(ledger: Ledger) -> None:
    source = listed(ledger, 3)
    first = source.left[0]
    issuer = Issuer(source)
    assert issued(issuer, "a", "b") == ["0", "1"]
    issuer.on_trial_result("b", {})
    issuer.on_trial_complete("a", error=True)
    issuer.issue_again(first)
    assert issued(issuer, "c", "d", "e") == ["0", "2", None]
    issuer.on_trial_complete("b")
    issuer.on_trial_complete("c")
    assert issued(issuer, "e") == [None]
    issuer.on_trial_complete("d")
    assert issued(issuer, "e") == ["FINISHED"]
    assert [name[-1] for name in source.seen] == ["1", "1", "0", "2"]


def failed(issuer: Issuer, ray_ids: str) -> list[int | None]:
    """Return what the limit is lowered to as one trial after the other fails for want of memory."""
    lowered = []
    for ray_id in ray_ids:
        issuer.on_trial_complete(ray_id, error=True)
        lowered.append(issuer.run_fewer(ray_id))
    return lowered


def test_trials_that_fail_together_halve_the_number_at_a_time_once(ledger: Ledger) -> None:
    issuer = Issuer(listed(ledger, 30))
    issued(issuer, *"abcdefghijklmnop")
    assert failed(issuer, "abcdefghijklmnop") == [8] + [None] * 15
    assert issued(issuer, *"ABCDEFGHI")[7:] == ["3", None]
    assert failed(issuer, "ABCDEFGH") == [4] + [None] * 7


def test_one_that_began_after_a_failure_counts_again_beside_those_that_ran_then(ledger: Ledger) -> None:
    issuer = Issuer(listed(ledger, 30))
    issued(issuer, *"abcdefgh")
    assert failed(issuer, "a") == [4]
    for ray_id in "bcdef":
        issuer.on_trial_complete(ray_id)
    issued(issuer, "A", "B")
    assert failed(issuer, "gAhB") == [None, 1, None, None]


def test_what_is_issued_after_a_failure_knows_how_often_there_was_one(ledger: Ledger) -> None:
    issuer = Issuer(listed(ledger, 30), halvings=1)
    first = issuer.suggest("a")
    issued(issuer, *"bcd")
    failed(issuer, "abcd")
    again = issuer.suggest("e")
    assert (first["halvings"], again["halvings"]) == (1, 2)


def test_one_that_failed_twice_has_its_last_chance_alone(ledger: Ledger) -> None:
    issuer = Issuer(listed(ledger, 3))
    issued(issuer, *"ab")
    alone = []
    for number in range(3):
        trial = next(iter(ledger.history.trials.values()))
        issuer.issue_again(trial)
        alone.append(issuer.suggest(f"again {number}")["alone"])
        append(ledger, "trial_retried", trial=trial.id, cause="error", error="died")
    assert alone == [False, False, True]
    assert issuer.suggest("c")["alone"] is False


def test_one_that_ran_alone_cannot_run_with_fewer(ledger: Ledger) -> None:
    issuer = Issuer(listed(ledger, 2))
    issued(issuer, "a")
    assert failed(issuer, "a") == [None]


def test_after_one_failure_the_limit_holds_until_others_have_ended(ledger: Ledger) -> None:
    issuer = Issuer(listed(ledger, 12), at_a_time=6)
    assert issued(issuer, *"abcdefg") == ["0", "1", "2", "3", "4", "5", None]
    assert failed(issuer, "a") == [3]
    issuer.on_trial_complete("b")
    issuer.on_trial_complete("c")
    assert issued(issuer, "h") == [None]
    issuer.on_trial_complete("d")
    assert issued(issuer, "h", "i") == ["6", None]
