"""The circuit breaker, on a clock of the test's."""

from orchestrator.tracking.tracker import Breaker


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_it_opens_longer_after_each_failure_and_closes_at_the_first_success() -> None:
    clock = Clock()
    breaker = Breaker(1.0, 10.0, clock)
    waits = []
    assert breaker.remaining == 0
    for _ in range(6):
        breaker.fail()
        waits.append(breaker.remaining)
        clock.now += breaker.remaining
        assert breaker.remaining == 0
    assert waits == [1, 2, 4, 8, 10, 10]
    breaker.succeed()
    assert (breaker.remaining, breaker.failures) == (0, 0)
    breaker.fail()
    assert breaker.remaining == 1
