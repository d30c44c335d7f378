"""Faults that only a crash brings to light."""

from tests.mutations.mutation import Mutation

EVERY_RECORD = "tests/faults/test_every_record.py::test_it_resumes_to_the_same_end_from_every_record"
KILLED = f"'{EVERY_RECORD}[one by one-killed after it]'"
POWER_LOST = f"'{EVERY_RECORD}[one by one-power lost while it is written]'"
POPULATION_KILLED = f"'{EVERY_RECORD}[a population-killed after it]'"

MUTATIONS = (
    Mutation(
        name="a record is acted upon before it is forced to the disk",
        file="orchestrator/journal/journal.py",
        old="line = line[self._file.write(line) :]\n        os.fsync(self._file.fileno())",
        new="line = line[self._file.write(line) :]",
        tests=KILLED,
    ),
    Mutation(
        name="a torn record stays in front of the next",
        file="orchestrator/journal/journal.py",
        old="self._file.truncate(whole)",
        new="self._file.truncate(len(content))",
        tests=POWER_LOST,
    ),
    Mutation(
        name="a restart passes over the trials that ran",
        file="orchestrator/studies/study.py",
        old="deque(trial for trial in searched if not trial.has_ended)",
        new="deque[Trial]()",
        tests=KILLED,
    ),
    Mutation(
        name="a restart asks the sampler without what it knew",
        file="orchestrator/studies/study.py",
        old="        self._asked += 1\n        self.add(trial)",
        new="        self._asked += 1",
        tests=KILLED,
    ),
    Mutation(
        name="a restart judges without what was judged before",
        file="orchestrator/tuner/scheduler.py",
        old="        self._replay()\n",
        new="",
        tests=KILLED,
    ),
    Mutation(
        name="a restart forgets how long there has been nothing better",
        file="orchestrator/search/budget.py",
        old="self._counted = 0",
        new="self._counted = len(history.ended)",
        tests=KILLED,
    ),
    Mutation(
        name="a restart takes the trials of another experiment again",
        file="orchestrator/studies/warm_start.py",
        old="if name in ledger.history.warmed_by:",
        new="if False:",
        tests=KILLED,
    ),
    Mutation(
        name="a restart opens the test split again",
        file="orchestrator/winners/test_split.py",
        old=" and trial.id not in opened]",
        new="]",
        tests=KILLED,
    ),
    Mutation(
        name="a restart leaves the models of a population where they were",
        file="orchestrator/studies/populations.py",
        old="        for trial in running:\n            self._adopt(trial)\n",
        new="",
        tests=POPULATION_KILLED,
    ),
)
